"""Measures how long the steps of a loop take, in wall time and in device time."""

import math
from functools import partial
from itertools import cycle
from statistics import fmean
from time import process_time
from typing import Any

import torch

from cudnn_sweep.workloads.cells.measurement import Measurement, MeasureSpec
from cudnn_sweep.workloads.measuring import device_time
from cudnn_sweep.workloads.measuring.captured import CapturedStep
from cudnn_sweep.workloads.measuring.device import Device
from cudnn_sweep.workloads.measuring.device_time import CannotCapture, OwnReplays, Replays, Step
from cudnn_sweep.workloads.measuring.ranks import is_together, now
from cudnn_sweep.workloads.measuring.sampling import MIN_SAMPLES, Sampled, sample
from cudnn_sweep.workloads.measuring.telemetry import Telemetry
from cudnn_sweep.workloads.measuring.warm_up import WarmUp, warm_up
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.records.measured import SteadyDevice, SteadyWall
from cudnn_sweep.workloads.workload import TimedStep

GROUP_S = 0.02  # shortest duration of a timed group of steps
LEAST_PERIODS = 4  # smallest number of periods in a group, if time allows
TURN_GROUP_S = 0.005  # shortest duration of a group if processes take turns
LEAD_IN_S = 0.002  # duration of the untimed steps before each group
LAUNCH_BOUND = 1.1  # smallest wall time, divided by device time, of a launch-bound loop


class Loop:
    def __init__(
        self, step: TimedStep, period: tuple[Shape, ...], batches: int, device: Device
    ) -> None:
        """Prepare at least `batches` inputs with the shapes of `period`, which the loop repeats."""
        if batches == 1:  # saves memory: one input for each distinct shape
            made = {shape: step.prepare(shape) for shape in dict.fromkeys(period)}
            self.inputs = [made[shape] for shape in period]
        else:
            shapes = period * math.ceil(batches / len(period))
            self.inputs = [step.prepare(shape) for shape in shapes]
        self.period = len(period)
        self.step = step
        self.device = device
        self._next = cycle(self.inputs)
        self.result: Any = None

    def run(self, periods: int) -> float:
        """Run the step for `periods` periods of shapes, and return the duration in seconds."""
        run, following = self.step.run, self._next
        self.device.synchronise()
        began = now()
        for _ in range(periods * self.period):
            self.result = run(next(following))
        self.device.synchronise()
        return now() - began

    def busy_cpus(self) -> float:
        began, cpu_began = now(), process_time()
        while now() - began < GROUP_S:
            self.run(1)
        return (process_time() - cpu_began) / (now() - began)

    def lead_in(self, round_s: float) -> None:
        """Run a few untimed steps. Do nothing if a step takes `GROUP_S` or longer."""
        step_s = round_s / self.period
        if step_s < GROUP_S:
            for _ in range(math.ceil(LEAD_IN_S / step_s)):
                self.result = self.step.run(next(self._next))


def periods_of_group(round_s: float, spec: MeasureSpec, group_s: float = GROUP_S) -> int:
    affordable = spec.steady_budget_s / MIN_SAMPLES / round_s
    wanted = max(group_s / round_s, LEAST_PERIODS)
    return max(1, math.ceil(min(wanted, affordable)))


def time_closed(loop: Loop, round_s: float, spec: MeasureSpec, telemetry: Telemetry) -> Sampled:
    """Measure the wall time of groups of steps, without synchronising inside a group."""
    periods = periods_of_group(round_s, spec)
    size = periods * loop.period

    def take() -> list[float]:
        elapsed_s = loop.run(periods)
        telemetry.note()
        return [elapsed_s * 1e3 / size]

    return sample(take, iterations=size, budget_s=spec.steady_budget_s, error=spec.steady_error)


def measure_closed(
    loop: Loop, spec: MeasureSpec, telemetry: Telemetry, measured: Measurement
) -> None:
    """Measure the wall time and then the device time of a loop that repeats its shapes."""
    device = loop.device
    measured.loop_kind = "closed"
    warm = warm_up(loop.run, spec, telemetry)
    note_warm_up(warm, spec, measured.wall)
    device.forget_peak()
    telemetry.begin()
    timed = time_closed(loop, warm.round_s, spec, telemetry)
    telemetry.end()
    device.note_memory(measured.memory, "steady_{}_bytes")
    note_samples(timed, measured.wall)
    measured.loss_last = loss_of(loop.result)
    loop.result = None  # its autograd graph would disturb a capture
    if device.is_cuda and spec.device_budget_s > 0:
        replays = capture_loop(loop, measured.device)
        if replays is not None:
            replayed = device_time.time_replays(replays, spec, telemetry)
            note_device(replayed, replays.source, measured.device)
    note_launch_bound(measured)


def measure_open(
    step: TimedStep,
    shapes: list[Shape],
    spec: MeasureSpec,
    device: Device,
    telemetry: Telemetry,
    measured: Measurement,
) -> None:
    """Time one step at each shape. The times include searches for cuDNN's plans."""
    measured.loop_kind = "open"
    device.forget_peak()
    telemetry.begin()
    samples: list[float] = []
    began = now()
    for shape in shapes:
        inputs = step.prepare(shape)
        device.synchronise()
        call_began = now()
        result = step.run(inputs)
        device.synchronise()
        samples.append((now() - call_began) * 1e3)
        telemetry.note()
        if now() - began > spec.open_budget_s:
            break
    telemetry.end()
    device.note_memory(measured.memory, "steady_{}_bytes")
    stop = "horizon" if len(samples) == len(shapes) else "budget"
    note_samples(Sampled(samples_ms=samples, iterations=len(samples), stop=stop), measured.wall)
    measured.wall.steady_wall_ms = fmean(samples)
    measured.wall.steady_wall_error = None  # the shapes differ from step to step
    measured.device.steady_device_note = "in an open loop, device time would include searches"
    measured.loss_last = loss_of(result)


def loss_of(result: object) -> float | None:
    if isinstance(result, torch.Tensor) and result.dim() == 0:
        return float(result.detach())
    return None


def capture_loop(loop: Loop, part: SteadyDevice) -> Replays | None:
    """Capture the loop in a CUDA graph. If that fails, use the profiler and return None."""
    steps: list[Step] = [partial(loop.step.run, inputs) for inputs in loop.inputs]
    if isinstance(loop.step.run, CapturedStep):
        return OwnReplays(steps)
    try:
        if is_together():
            raise CannotCapture("a step with several ranks waits for other GPUs")
        device_time.check_capturable(loop.step, steps[0])
        return Replays(steps)
    except CannotCapture as reason:
        part.steady_device_note = str(reason)
    profiled = device_time.time_profiled(steps)
    if profiled is None:
        part.steady_device_note = f"{part.steady_device_note}; the profiler found no kernels"
    else:
        timed, wait_ms = profiled
        note_device(timed, "profiler", part)
        part.steady_wait_ms = wait_ms if is_together() else None
    return None


def note_device(timed: Sampled, source: str, part: SteadyDevice) -> None:
    part.steady_device_source = source
    part.steady_device_samples_ms = timed.samples_ms
    part.steady_device_ms = timed.median_ms
    part.steady_device_p10_ms = timed.quantile_ms(0.1)
    part.steady_device_p90_ms = timed.quantile_ms(0.9)
    part.steady_device_error = timed.error
    part.steady_device_iterations = timed.iterations
    part.steady_device_stop = timed.stop


def note_launch_bound(measured: Measurement) -> None:
    wall_ms, device_ms = measured.wall.steady_wall_ms, measured.device.steady_device_ms
    if wall_ms and device_ms and not is_together():  # a rank also waits for the others
        measured.device.launch_bound = wall_ms > LAUNCH_BOUND * device_ms


def note_warm_up(warm: WarmUp, spec: MeasureSpec, wall: SteadyWall) -> None:
    wall.warmup_s = warm.seconds
    wall.warmup_settled = warm.settled if spec.warmup_s > 0 else None


def note_samples(timed: Sampled, wall: SteadyWall) -> None:
    wall.steady_wall_samples_ms = timed.samples_ms
    wall.steady_wall_ms = timed.median_ms
    wall.steady_wall_p10_ms = timed.quantile_ms(0.1)
    wall.steady_wall_p90_ms = timed.quantile_ms(0.9)
    wall.steady_wall_error = timed.error
    wall.steady_iterations = timed.iterations
    wall.steady_stop = timed.stop
