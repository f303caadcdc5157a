"""The timed loops as a user has them, closed and open."""

import math
from itertools import cycle
from time import perf_counter, process_time
from typing import Any

from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.measuring.device import Device
from cudnn_sweep.workloads.measuring.sampling import MIN_SAMPLES, Sampled, sample
from cudnn_sweep.workloads.measuring.telemetry import Telemetry
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.workload import TimedStep

GROUP_S = 0.02  # a timed group's least length: one synchronise (10 µs) is then 0.05% of it
LEAST_PERIODS = 4  # of it, where the budget has room: a loop's CPU runs ahead of long steps, too
TURN_GROUP_S = (
    0.005  # of processes that take turns: a host's pace changes within tens of milliseconds
)
LEAD_IN_S = 0.002  # untimed, at each turn: its first steps pay for the switch between two processes


class Loop:
    """A step and the inputs that it goes round."""

    def __init__(
        self, step: TimedStep, period: tuple[Shape, ...], batches: int, device: Device
    ) -> None:
        """There are `batches` inputs of each shape at least; a round is a whole number of periods, so
        that all rounds do the same work.
        """
        self.inputs = _inputs(step, period, batches)
        self.shapes = period
        self.period = len(period)
        self.step = step
        self.device = device
        self._next = cycle(self.inputs)
        self.result: Any = None
        """What the last step returned: a training step's loss."""

    def run(self, periods: int) -> float:
        """Seconds for so many periods, with a synchronise before and after alone."""
        run, following = self.step.run, self._next
        self.device.synchronise()
        began = perf_counter()
        for _ in range(periods * self.period):
            self.result = run(next(following))
        self.device.synchronise()
        return perf_counter() - began

    def busy_cpus(self) -> float:
        """How many CPUs this process keeps busy while it runs."""
        began, cpu_began = perf_counter(), process_time()
        while perf_counter() - began < GROUP_S:
            self.run(1)
        return (process_time() - cpu_began) / (perf_counter() - began)

    def lead_in(self, round_s: float) -> None:
        """A few steps that nobody times; none where they take longer than a timed group is to."""
        step_s = round_s / self.period
        if step_s < GROUP_S:
            for _ in range(math.ceil(LEAD_IN_S / step_s)):
                self.result = self.step.run(next(self._next))


def periods_of_group(round_s: float, spec: MeasureSpec, group_s: float = GROUP_S) -> int:
    """How many periods, of which each takes so long, are timed together."""
    affordable = spec.steady_budget_s / MIN_SAMPLES / round_s
    wanted = max(group_s / round_s, LEAST_PERIODS)
    return max(1, math.ceil(min(wanted, affordable)))


def time_closed(loop: Loop, round_s: float, spec: MeasureSpec, telemetry: Telemetry) -> Sampled:
    """Time the loop as a user runs it: no synchronise inside a group of iterations."""
    periods = periods_of_group(round_s, spec)
    size = periods * loop.period

    def take() -> list[float]:
        elapsed_s = loop.run(periods)
        telemetry.note()
        return [elapsed_s * 1e3 / size]

    return sample(take, iterations=size, budget_s=spec.steady_budget_s, error=spec.steady_error)


def time_open(
    step: TimedStep, shapes: list[Shape], spec: MeasureSpec, device: Device, telemetry: Telemetry
) -> tuple[Sampled, Any]:
    """Time each step as its shape arrives, searches included; making the input is not timed."""
    samples: list[float] = []
    began = perf_counter()
    for shape in shapes:
        inputs = step.prepare(shape)
        device.synchronise()
        call_began = perf_counter()
        result = step.run(inputs)
        device.synchronise()
        samples.append((perf_counter() - call_began) * 1e3)
        telemetry.note()
        if perf_counter() - began > spec.open_budget_s:
            break
    stop = "horizon" if len(samples) == len(shapes) else "budget"
    return Sampled(samples_ms=samples, iterations=len(samples), stop=stop), result


def _inputs(step: TimedStep, period: tuple[Shape, ...], batches: int) -> list[Any]:
    if batches == 1:  # inputs may be large: one for each distinct shape is enough
        made = {shape: step.prepare(shape) for shape in dict.fromkeys(period)}
        return [made[shape] for shape in period]
    return [step.prepare(shape) for shape in period * math.ceil(batches / len(period))]
