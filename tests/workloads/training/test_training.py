"""Losses and optimisers, by name and of a user's own: what they take, and that training brings losses down."""

import functools
import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.measuring.device_time import capture, check_capturable
from cudnn_sweep.workloads.precision import PRECISIONS
from cudnn_sweep.workloads.training.choice import OPTIMISERS, ModelChoice, make_optimiser
from cudnn_sweep.workloads.training.loss import floating_tensors, make_loss
from tests.workloads.made_up_cells import plain_context
from tests.workloads.made_up_models import IMAGES, Detected, build, context, here, losses


@pytest.mark.parametrize("precision", PRECISIONS)
def test_training_brings_the_loss_down_in_every_precision(precision: str) -> None:
    wanted = context(precision=precision, loss="cross_entropy", optimiser_parameters={"lr": 0.05})
    found = losses(build(here("Plain"), wanted), 15)
    assert 1.2 < found[0] < 2.5, "guessing among five classes costs 1.6"
    assert 0 <= found[-1] < 0.5 * found[0]


def test_losses_take_whatever_a_model_returns() -> None:
    ones, twos = torch.ones(2, 3, 4), torch.full((2, 3), 2.0)
    nested = {"out": ones, "more": (twos, [ones.half(), torch.arange(3)], None, "text")}
    assert list(floating_tensors(nested)) == ["output.out", "output.more.0", "output.more.1.0"]
    assert float(make_loss("mean_square")(nested)) == (1 + 4 + 1) / 3
    detected = Detected(boxes=twos, levels=[ones])
    assert list(floating_tensors(detected)) == ["output.boxes", "output.levels.0"]
    assert float(make_loss("mean_square")(torch.full((2,), 300.0).half())) == 300.0**2
    uniform = make_loss("cross_entropy")({"out": ones, "aux": torch.zeros(2, 3)})
    assert float(uniform) == pytest.approx(torch.tensor(3.0).log())


def test_classes_are_random_and_the_same_for_every_config() -> None:
    scores = torch.randn(64, 5, 3)
    torch.manual_seed(1)
    first = make_loss("cross_entropy")
    torch.manual_seed(2)
    second = make_loss("cross_entropy")
    assert float(first(scores)) == float(first(scores)) == float(second(scores))
    confident = 100 * nn.functional.one_hot(torch.zeros(64, dtype=torch.long), 5).float()
    share_of_zero = 1 - float(first(confident)) / 100
    assert 0.05 < share_of_zero < 0.4


def test_own_loss_is_what_falls() -> None:
    step = build(here("Plain"), context(loss=here("distance_from_one")))
    found = losses(step, 10)
    assert found[0] > 0.5
    assert found[-1] < 0.5 * found[0]


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
    plain = losses(build(here("Plain"), context(optimiser=optimiser)), 8)
    assert plain[-1] < plain[0]
    numbers = {"lr": 0.002, "weight_decay": 0.1}
    build(here("Plain"), context(optimiser=optimiser, optimiser_parameters=numbers))
    assert {name: optimisers[1].defaults[name] for name in numbers} == numbers
    reference = original([torch.zeros(1, requires_grad=True)]).defaults
    ours = {"lr": 0.01, "momentum": 0.9} if optimiser == "sgd" else {}
    assert optimisers[0].defaults == {**reference, **ours}


@pytest.mark.gpu
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_a_training_step_is_captured_in_a_graph(optimiser: str) -> None:
    step = build(here("Plain"), context(device="cuda", loss="cross_entropy", optimiser=optimiser))
    run = partial(step.run, step.prepare(IMAGES))
    before = float(run())
    check_capturable(step, run)
    graph = capture(run, after=run)
    for _ in range(20):
        graph.replay()
    assert float(run()) < before


def test_losses_are_scaled_under_float16_autocast_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    scaled: list[bool] = []

    class Recorded(torch.amp.GradScaler):
        def __init__(self, device: str, *, enabled: bool) -> None:
            scaled.append(enabled)
            super().__init__(device, enabled=enabled)

    monkeypatch.setattr(torch.amp, "GradScaler", Recorded)
    for precision in ("fp32", "amp_bf16", "amp_fp16"):
        build(here("Plain"), context(precision=precision))
        find_workload("mnist").step(plain_context("training", precision=precision))
    assert scaled == [False, False, False, False, True, True]


def test_a_loss_of_the_users_own_is_one_number_and_an_unknown_name_is_answered() -> None:
    for name, fault in (
        ("each_distance", r"returned a Tensor of shape \(2,\); allowed: a scalar tensor"),
        ("no_loss", "returned a NoneType; allowed: a scalar tensor"),
    ):
        loss = make_loss(here(name))
        with pytest.raises(WorkloadError, match=fault):
            loss(torch.ones(2))
    with pytest.raises(WorkloadError, match="number is a int; allowed: a function"):
        make_loss(here("number"))
    assert float(make_loss(here("distance_from_one"))(torch.ones(2))) == 0.0
    with pytest.raises(WorkloadError, match="unknown loss 'mean'.*allowed: FILE.py:NAME, MODULE:N"):
        ModelChoice(loss="mean")
    assert ModelChoice(loss="own.py:loss").loss == "own.py:loss", "a plan imports no code"


@pytest.mark.parametrize(
    ("shape", "fault"),
    [
        ((4,), r"takes an output of shape \(N, classes\) or .*, found \(4,\)"),
        ((), r"found \(\)"),
        ((4, 5), None),
        ((4, 5, 2), None),
    ],
)
def test_cross_entropy_takes_scores_of_classes(shape: tuple[int, ...], fault: str | None) -> None:
    scores, loss = torch.zeros(shape), make_loss("cross_entropy")
    if fault is None:
        assert float(loss(scores)) == pytest.approx(math.log(5))
        return
    with pytest.raises(WorkloadError, match=fault):
        loss(scores)
    with pytest.raises(
        WorkloadError, match="needs floating-point tensors, but the model returned a li"
    ):
        loss([torch.arange(3)])


@pytest.mark.parametrize(
    ("optimiser", "device", "numbers"),
    [
        ("adam", "cpu", {"betas": (0.9, 0.999), "capturable": False, "weight_decay": 0.0}),
        ("adam", "cuda", {"betas": (0.9, 0.999), "capturable": True}),
        ("adamw", "cpu", {"weight_decay": 0.01}),
        ("sgd", "cuda", {"lr": 0.01, "momentum": 0.9}),
    ],
)
def test_an_optimiser_is_capturable_on_a_gpu_alone(
    monkeypatch: pytest.MonkeyPatch, optimiser: str, device: str, numbers: dict[str, Any]
) -> None:
    given: dict[str, Any] = {}
    name = type(make_optimiser(optimiser, {})).__name__
    kind = getattr(torch.optim, name)

    @functools.wraps(kind)
    def made(weights: Any, **keywords: Any) -> Any:
        given.update(keywords)

    monkeypatch.setattr(torch.optim, name, made)
    make_optimiser(optimiser, {}).make([], torch.device(device))
    assert {key: given[key] for key in numbers} == numbers
    assert ("capturable" in given) == (optimiser != "sgd")


def test_a_loss_of_the_models_own_is_taken_as_it_is() -> None:
    loss = torch.tensor(2.0)
    assert make_loss("own")({"loss": loss}) is loss and make_loss("own")((loss, 1)) is loss
    with pytest.raises(WorkloadError, match="loss own needs a loss .* which returned a dict"):
        make_loss("own")({"loss": torch.ones(2)})
