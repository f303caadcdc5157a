"""One trial, from flags to numbers, in a process that ends afterwards."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from time import perf_counter

import torch

from cudnn_sweep.workloads.compute_cache import ComputeCache, use_compute_cache
from cudnn_sweep.workloads.config import apply_config
from cudnn_sweep.workloads.device import Device, find_device
from cudnn_sweep.workloads.loops import LoopTiming, time_closed, time_cold, time_open
from cudnn_sweep.workloads.measurement import Measurement, TrialRequest
from cudnn_sweep.workloads.precision import find_precision
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.routes import WatchConvolutions
from cudnn_sweep.workloads.workload import Setting, TimedStep, find_workload


def run_trial(request: TrialRequest, measured: Measurement) -> None:
    """Measure what `request` asks for into `measured`, which keeps what it got where a step raises."""
    cell = request.cell
    cache = _use_cache(request, measured)
    _apply(request, measured)
    workload = find_workload(cell.workload)
    with _phase(measured, "one_time"):
        device = find_device()
        workload.pay_one_time_costs(device.torch)
    with _phase(measured, "build"):
        step = workload.build(
            Setting(
                device=device.torch,
                precision=find_precision(cell.precision),
                layout=cell.layout,
                direction=cell.direction,
                problem=cell.problem,
            )
        )
    period = cell.shapes().period(cell.input_shape)
    arriving = cell.shapes().stream(cell.input_shape)
    with _phase(measured, "cold"), _memory_peak(measured, "cold", device):
        _cold(request, step, period, arriving, device, measured)
    with _phase(measured, "steady"), _memory_peak(measured, "steady", device):
        if period is not None and measured.distinct_shapes == measured.regime_shapes:
            measured.loop_kind = "closed"
            timing = time_closed(step, period, workload.batches, request.measure, device)
        else:
            measured.loop_kind = "open"
            unseen = list(islice(arriving, request.measure.open_steps))
            timing = time_open(step, unseen, request.measure, device)
            measured.open_new_shapes = _new_shapes(unseen[: timing.iterations], measured)
        _note_timing(timing, measured)
    with _phase(measured, "checks"):
        _check(cell.input_shape, step, cache, measured)


def _use_cache(request: TrialRequest, measured: Measurement) -> ComputeCache | None:
    if request.compute_cache is None:
        return None
    cache = use_compute_cache(Path(request.compute_cache))
    measured.compute_cache = cache.state
    measured.compute_cache_entries_before = cache.entries_before
    return cache


def _apply(request: TrialRequest, measured: Measurement) -> None:
    """Flags, TF32, threads and seed; what can be read back is."""
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    measured.threads = torch.get_num_threads()
    measured.config = apply_config(request.config)
    find_precision(request.cell.precision).apply()
    measured.conv_fp32_precision = torch.backends.cudnn.conv.fp32_precision  # type: ignore[attr-defined]
    torch.manual_seed(request.seed)


def _cold(
    request: TrialRequest,
    step: TimedStep,
    period: tuple[Shape, ...] | None,
    arriving: Iterator[Shape],
    device: Device,
    measured: Measurement,
) -> None:
    """Meet each distinct shape; where shapes never end, the first few of `arriving`."""
    spec = request.measure
    if period is None:
        unseen = islice(arriving, spec.open_cold_shapes)
    else:
        unseen = islice(dict.fromkeys(period), spec.cold_shapes)
        measured.regime_shapes = len(set(period))
    measured.cold, measured.distinct_shapes = [], 0
    began = perf_counter()
    for call, result in time_cold(step, unseen, device):
        if not measured.cold:
            measured.loss_first = _loss(result)
        measured.cold.append(call)
        measured.distinct_shapes += 1
        if perf_counter() - began > spec.cold_budget_s:
            break


def _new_shapes(shapes: list[Shape], measured: Measurement) -> int:
    met = {call.shape for call in measured.cold or ()}
    return len(set(shapes) - met)


def _note_timing(timing: LoopTiming, measured: Measurement) -> None:
    measured.steady_wall_samples_ms = timing.samples_ms
    measured.steady_wall_ms = timing.centre_ms
    measured.steady_iterations = timing.iterations
    measured.steady_stop = timing.stop
    measured.loss_last = _loss(timing.result)


def _check(
    shape: Shape, step: TimedStep, cache: ComputeCache | None, measured: Measurement
) -> None:
    inputs = step.prepare(shape)
    with WatchConvolutions() as watch:
        step.run(inputs)
    measured.convolutions = len(watch.routes)
    measured.routes = sorted(set(watch.routes))
    measured.peak_host_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if cache is not None:
        measured.compute_cache_entries_added = cache.entries_added()


def _loss(result: object) -> float | None:
    """What a training step returned; other steps return nothing."""
    return float(result) if isinstance(result, torch.Tensor) and result.dim() == 0 else None


@contextmanager
def _phase(measured: Measurement, name: str) -> Iterator[None]:
    began = perf_counter()
    try:
        yield
    finally:
        measured.phases_s[name] = perf_counter() - began


@contextmanager
def _memory_peak(measured: Measurement, part: str, device: Device) -> Iterator[None]:
    device.forget_peak()
    yield
    peak = device.memory_peak()
    setattr(measured, f"{part}_peak_allocated_bytes", peak.allocated_bytes)
    setattr(measured, f"{part}_peak_reserved_bytes", peak.reserved_bytes)
