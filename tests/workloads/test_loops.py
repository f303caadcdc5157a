"""The timed loops, on steps whose cost is known."""

import time
from collections.abc import Callable

import pytest
import torch

from cudnn_sweep.workloads.device import Device
from cudnn_sweep.workloads.loops import time_closed, time_cold, time_open
from cudnn_sweep.workloads.measurement import MeasureSpec
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.workload import TimedStep

CPU = Device(torch=torch.device("cpu"))
Sleeper = Callable[[Callable[[Shape], float]], tuple[TimedStep, list[Shape]]]

SPEC = MeasureSpec(warmup_s=0.05, steady_budget_s=0.2, steady_error=0.0)


@pytest.fixture
def sleeper() -> Sleeper:
    """A step that takes so many seconds, and the shapes that it was called with."""

    def make(seconds: Callable[[Shape], float]) -> tuple[TimedStep, list[Shape]]:
        called: list[Shape] = []

        def run(shape: Shape) -> None:
            called.append(shape)
            time.sleep(seconds(shape))

        return TimedStep(prepare=lambda shape: shape, run=run), called

    return make


def test_closed_loop_reports_time_an_iteration(sleeper: Sleeper) -> None:
    step, called = sleeper(lambda shape: 0.002 if shape == (1,) else 0.004)
    timing = time_closed(step, ((1,), (2,)), 1, SPEC, CPU)
    assert timing.centre_ms == pytest.approx(3.0, rel=0.25)
    assert timing.stop == "budget"
    assert timing.iterations % 2 == 0, "a group is whole periods"
    assert called[:4] == [(1,), (2,), (1,), (2,)]


def test_closed_loop_stops_early_when_precise(sleeper: Sleeper) -> None:
    step, _ = sleeper(lambda shape: 0.002)
    spec = MeasureSpec(warmup_s=0.0, steady_budget_s=30.0, steady_error=0.5)
    timing = time_closed(step, ((1,),), 1, spec, CPU)
    assert timing.stop == "precision"
    assert len(timing.samples_ms) < 20


def test_open_loop_times_each_step_until_its_budget(sleeper: Sleeper) -> None:
    step, called = sleeper(lambda shape: 0.01)
    spec = MeasureSpec(open_budget_s=0.1)
    timing = time_open(step, [(size,) for size in range(1000)], spec, CPU)
    assert timing.stop == "budget"
    assert len(timing.samples_ms) == timing.iterations == len(called)
    assert 5 <= timing.iterations <= 11


def test_cold_part_calls_each_shape_twice(sleeper: Sleeper) -> None:
    met: set[Shape] = set()

    def first_is_dear(shape: Shape) -> float:
        cost = 0.0 if shape in met else 0.02
        met.add(shape)
        return cost

    step, called = sleeper(first_is_dear)
    calls = [call for call, _ in time_cold(step, [(1,), (2,)], CPU)]
    assert called == [(1,), (1,), (2,), (2,)]
    for call in calls:
        assert call.first_ms >= 20
        assert call.second_ms is not None and call.second_ms < 10
