"""The step that pays what any first step of a process pays."""

import pytest
import torch

from cudnn_sweep.workloads.workload import pay_unrelated_step


def test_it_trains_twice_so_that_gradients_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[list[bool]] = []

    def step(optimiser: torch.optim.SGD) -> None:
        (group,) = optimiser.param_groups
        steps.append([parameter.grad is not None for parameter in group["params"]])

    monkeypatch.setattr(torch.optim.SGD, "step", step)
    pay_unrelated_step(torch.device("cpu"))
    assert steps == [[True] * 4] * 2
