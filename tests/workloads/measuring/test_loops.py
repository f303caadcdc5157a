"""The timed loops, on steps whose cost is known."""

import time
from collections.abc import Callable

import pytest
import torch

from cudnn_sweep.workloads.cells.measurement import Measurement, MeasureSpec
from cudnn_sweep.workloads.measuring.device import Device
from cudnn_sweep.workloads.measuring.steady import Loop, measure_open, time_closed
from cudnn_sweep.workloads.measuring.telemetry import Telemetry
from cudnn_sweep.workloads.measuring.trial import split_call, time_cold
from cudnn_sweep.workloads.measuring.warm_up import warm_up
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.workload import TimedStep

pytestmark = pytest.mark.measuring

CPU = Device(torch=torch.device("cpu"))
Sleeper = Callable[[Callable[[Shape], float]], tuple[TimedStep, list[Shape]]]

NOBODY = Telemetry(None)
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
    timed = time_closed(Loop(step, ((1,), (2,)), 1, CPU), 0.006, SPEC, NOBODY)
    assert timed.median_ms == pytest.approx(3.0, rel=0.25)
    assert timed.stop == "budget"
    assert timed.iterations % 2 == 0, "a group is whole periods"
    assert called[:4] == [(1,), (2,), (1,), (2,)]


def test_closed_loop_stops_early_when_precise(sleeper: Sleeper) -> None:
    step, _ = sleeper(lambda shape: 0.002)
    spec = MeasureSpec(warmup_s=0.0, steady_budget_s=30.0, steady_error=0.5)
    timed = time_closed(Loop(step, ((1,),), 1, CPU), 0.002, spec, NOBODY)
    assert timed.stop == "precision"
    assert len(timed.samples_ms) < 20


def test_warm_up_goes_on_until_the_pace_settles() -> None:
    """By the times that rounds are told to take: how busy the machine is does not matter."""
    times_s: list[float] = []

    def faster_for_a_while(rounds: int) -> float:
        began = len(times_s)
        times_s.extend(max(0.01, 0.03 - 0.001 * number) for number in range(began, began + rounds))
        return sum(times_s[began:])

    spec = MeasureSpec(warmup_s=1e-6, warmup_limit_s=10.0)
    warm = warm_up(faster_for_a_while, spec, NOBODY)
    assert warm.settled
    assert warm.round_s == pytest.approx(0.01)
    assert 2 <= times_s.count(0.01) <= 20, "a window of 50 ms, compared with another"


def test_warm_up_gives_up_at_its_limit(sleeper: Sleeper) -> None:
    began = time.perf_counter()
    step, _ = sleeper(lambda shape: 0.001 + 0.02 * (time.perf_counter() - began))
    spec = MeasureSpec(warmup_s=0.05, warmup_limit_s=0.3)
    warm = warm_up(Loop(step, ((1,),), 1, CPU).run, spec, NOBODY)
    assert warm.settled is False


def test_open_loop_times_each_step_until_its_budget(sleeper: Sleeper) -> None:
    step, called = sleeper(lambda shape: 0.01)
    spec = MeasureSpec(open_budget_s=0.1)
    measured = Measurement()
    measure_open(step, [(size,) for size in range(1000)], spec, CPU, NOBODY, measured)
    wall = measured.wall
    assert wall.steady_stop == "budget"
    assert len(wall.steady_wall_samples_ms or ()) == wall.steady_iterations == len(called)
    assert 5 <= len(called) <= 11


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
        assert call.first_forward_ms == call.first_ms
        assert call.first_backward_ms is None


class _Slow(torch.autograd.Function):
    """20 ms forward, 40 ms backward."""

    @staticmethod
    def forward(context: object, numbers: torch.Tensor) -> torch.Tensor:
        time.sleep(0.02)
        return numbers.clone()

    @staticmethod
    def backward(context: object, gradient: torch.Tensor) -> torch.Tensor:
        time.sleep(0.04)
        return gradient


@pytest.mark.parametrize("by", ["backward", "grad"])
def test_call_is_split_where_autograd_begins_and_ends(by: str) -> None:
    numbers = torch.ones(3, requires_grad=True)

    def run(shape: Shape) -> None:
        loss = _Slow.apply(numbers).sum()  # type: ignore[no-untyped-call]
        loss.backward() if by == "backward" else torch.autograd.grad(loss, numbers)
        time.sleep(0.01)

    run((1,))  # torch's own first time
    times, _ = split_call(TimedStep(prepare=lambda shape: shape, run=run), (1,), CPU)
    assert 20 <= times["forward_ms"] and 40 <= times["backward_ms"], (
        "neither has a part of the other's"
    )
    assert times["ms"] >= times["forward_ms"] + times["backward_ms"] + 9
