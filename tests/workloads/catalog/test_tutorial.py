"""The tutorial's script: which flag is on in which call, and what its clock says."""

import time
from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.backends import cudnn

from cudnn_sweep.workloads.catalog import tutorial
from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.workload import TimedStep
from tests.workloads.made_up_cells import MeasureCell, context_of, one_cell

CALLS = 3
CALL_S = 0.01


@pytest.fixture
def flags(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """The flag in each call of a convolution; a call with the flag on takes CALL_S more."""
    seen: list[bool] = []

    def note(module: nn.Module, inputs: object) -> None:
        seen.append(cudnn.benchmark)
        time.sleep(CALL_S if cudnn.benchmark else 0)

    monkeypatch.setattr(tutorial, "CALLS", CALLS)
    hook = nn.modules.module.register_module_forward_pre_hook(note)
    yield seen
    hook.remove()


def built(name: str) -> TimedStep:
    return find_workload(name).step(context_of("plain"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tutorial_true_first", [True] * CALLS + [False] * CALLS),
        ("tutorial_false_first", [False] * CALLS + [True] * CALLS),
        ("tutorial_synchronised", [True] * (CALLS + 1) + [False] * (CALLS + 1)),
    ],
)
def test_first_call_is_the_script_and_later_ones_are_a_forward_pass(
    flags: list[bool], name: str, expected: list[bool]
) -> None:
    step = built(name)
    inputs = step.prepare((1, 3, 8, 8))
    step.run(inputs)
    assert flags == expected
    assert not cudnn.benchmark, "the config's flag is back"
    assert step.own_times_ms is not None
    first = step.own_times_ms()
    assert first["benchmark_true"] >= CALLS * CALL_S * 1e3 > first["benchmark_false"]
    step.run(inputs)
    assert flags == [*expected, False]
    assert step.own_times_ms() == first


@pytest.mark.usefixtures("flags")
def test_script_that_fails_leaves_the_config_as_it_was() -> None:
    with pytest.raises(RuntimeError):
        built("tutorial_true_first").run(torch.ones(1, 2, 8, 8))
    assert not cudnn.benchmark


@pytest.mark.long
def test_trial_has_the_clock_of_its_script_and_others_have_none(measured: MeasureCell) -> None:
    found = measured(one_cell("tutorial_true_first", batch=1))
    assert found.own_times_ms is not None and found.cold
    assert list(found.own_times_ms) == ["benchmark_true", "benchmark_false"]
    assert 0 < sum(found.own_times_ms.values()) <= found.cold[0].first_ms
    assert measured(one_cell("conv")).own_times_ms is None


def test_the_convolution_is_that_of_the_tutorials() -> None:
    """Conv2d(3, 64, 3, 1, 1), without a bias."""
    step = built("tutorial_true_first")
    assert step.examine is not None
    black = torch.zeros(2, 3, 9, 8)
    assert step.examine(black)["output"].shape == (2, 64, 9, 8)
    assert not step.examine(black)["output"].any(), "no bias"
    black[:, :, 4, 4] = 1
    reached = step.examine(black)["output"].any(1).any(0).nonzero()
    assert {*map(tuple, reached.tolist())} == {(y, x) for y in (3, 4, 5) for x in (3, 4, 5)}
