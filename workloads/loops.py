"""The timed loops: cold calls, the closed loop and the open loop."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle
from statistics import fmean, median, stdev
from time import perf_counter
from typing import Any

from cudnn_sweep.workloads.device import Device
from cudnn_sweep.workloads.measurement import ColdCall, MeasureSpec
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.workload import TimedStep

GROUP_S = 0.02  # a timed group's least length: one synchronise (10 µs) is then 0.05% of it
MIN_SAMPLES = 5  # fewer say nothing of their spread
MEDIAN_ERROR = math.sqrt(math.pi / 2)  # standard error of a median over that of a mean, if normal


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopTiming:
    """`samples_ms` are wall times per iteration."""

    samples_ms: list[float]
    centre_ms: float
    iterations: int
    stop: str
    result: Any
    """What the last step returned: a training step's loss."""


def time_cold(
    step: TimedStep, shapes: Iterable[Shape], device: Device
) -> Iterator[tuple[ColdCall, Any]]:
    """Call each shape twice; yields both times and what the first call returned."""
    for shape in shapes:
        inputs = step.prepare(shape)
        first_ms, result = _timed_call(step, inputs, device)
        second_ms, _ = _timed_call(step, inputs, device)
        yield ColdCall(shape=shape, first_ms=first_ms, second_ms=second_ms), result


def time_closed(
    step: TimedStep, period: tuple[Shape, ...], batches: int, spec: MeasureSpec, device: Device
) -> LoopTiming:
    """Time the loop as a user runs it: no synchronise inside a group of iterations.

    A group is a whole number of periods, so that all groups do the same work. Inputs are made
    before; there are `batches` of them at least, which the loop goes round.
    """
    inputs = cycle(_inputs(step, period, batches))
    size = len(period) * _periods_a_group(step, inputs, len(period), spec, device)
    samples: list[float] = []
    began = perf_counter()
    while True:
        elapsed, result = _timed_group(step, inputs, size, device)
        samples.append(elapsed * 1e3 / size)
        stop = _stop(samples, perf_counter() - began, spec)
        if stop:
            return LoopTiming(
                samples_ms=samples,
                centre_ms=median(samples),
                iterations=size * len(samples),
                stop=stop,
                result=result,
            )


def time_open(
    step: TimedStep, shapes: list[Shape], spec: MeasureSpec, device: Device
) -> LoopTiming:
    """Time each step as its shape arrives, searches included; making the input is not timed."""
    samples: list[float] = []
    began = perf_counter()
    for shape in shapes:
        elapsed_ms, result = _timed_call(step, step.prepare(shape), device)
        samples.append(elapsed_ms)
        if perf_counter() - began > spec.open_budget_s:
            break
    return LoopTiming(
        samples_ms=samples,
        centre_ms=fmean(samples),
        iterations=len(samples),
        stop="horizon" if len(samples) == len(shapes) else "budget",
        result=result,
    )


def _inputs(step: TimedStep, period: tuple[Shape, ...], batches: int) -> list[Any]:
    if batches == 1:  # inputs may be large: one for each distinct shape is enough
        made = {shape: step.prepare(shape) for shape in dict.fromkeys(period)}
        return [made[shape] for shape in period]
    return [step.prepare(shape) for shape in period * math.ceil(batches / len(period))]


def _periods_a_group(
    step: TimedStep, inputs: Iterator[Any], period: int, spec: MeasureSpec, device: Device
) -> int:
    """Run for the warm-up's time, at least once round, and size groups by the pace seen."""
    began = perf_counter()
    pace = math.inf
    while True:
        elapsed, _ = _timed_group(step, inputs, period, device)
        pace = min(pace, elapsed)
        if perf_counter() - began >= spec.warmup_s:
            longest = min(GROUP_S, spec.steady_budget_s / MIN_SAMPLES)
            return max(1, math.ceil(longest / pace))


def _stop(samples: list[float], elapsed_s: float, spec: MeasureSpec) -> str | None:
    if elapsed_s >= spec.steady_budget_s:
        return "budget"
    if len(samples) < MIN_SAMPLES:
        return None
    error = MEDIAN_ERROR * stdev(samples) / math.sqrt(len(samples))
    return "precision" if error <= spec.steady_error * median(samples) else None


def _timed_call(step: TimedStep, inputs: Any, device: Device) -> tuple[float, Any]:
    device.synchronise()
    began = perf_counter()
    result = step.run(inputs)
    device.synchronise()
    return (perf_counter() - began) * 1e3, result


def _timed_group(
    step: TimedStep, inputs: Iterator[Any], size: int, device: Device
) -> tuple[float, Any]:
    device.synchronise()
    began = perf_counter()
    for _ in range(size):
        result = step.run(next(inputs))
    device.synchronise()
    return perf_counter() - began, result
