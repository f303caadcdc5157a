"""Optimisers by name."""

from functools import partial
from typing import Any

import pytest
import torch

from cudnn_sweep.workloads.measuring.cuda_graph import capture, check_capturable
from cudnn_sweep.workloads.training.optimiser import OPTIMISERS
from tests.workloads.made_up_models import IMAGES, build, here, losses, setting


@pytest.mark.parametrize(
    ("optimiser", "kind"),
    [("sgd", "SGD"), ("adam", "Adam"), ("adamw", "AdamW"), ("rmsprop", "RMSprop")],
)
def test_every_optimiser_trains_and_takes_its_numbers(
    monkeypatch: pytest.MonkeyPatch, optimiser: str, kind: str
) -> None:
    def spy(*args: Any, **keywords: Any) -> torch.optim.Optimizer:
        optimisers.append(original(*args, **keywords))
        return optimisers[-1]

    optimisers: list[torch.optim.Optimizer] = []
    original = getattr(torch.optim, kind)
    monkeypatch.setattr(torch.optim, kind, spy)
    plain = losses(build(here("Plain"), setting(optimiser=optimiser)), 8)
    assert plain[-1] < plain[0]
    numbers = {"lr": 0.002, "weight_decay": 0.1}
    build(here("Plain"), setting(optimiser=optimiser, optimiser_parameters=numbers))
    assert {name: optimisers[1].defaults[name] for name in numbers} == numbers
    reference = original([torch.zeros(1, requires_grad=True)]).defaults
    ours = {"lr": 0.01, "momentum": 0.9} if optimiser == "sgd" else {}
    assert optimisers[0].defaults == {**reference, **ours}


@pytest.mark.gpu
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_a_training_step_is_captured_in_a_graph(optimiser: str) -> None:
    step = build(here("Plain"), setting(device="cuda", loss="cross_entropy", optimiser=optimiser))
    run = partial(step.run, step.prepare(IMAGES))
    before = float(run())
    check_capturable(run)
    graph = capture(run, after=run)
    for _ in range(20):
        graph.replay()
    assert float(run()) < before
