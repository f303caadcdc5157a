"""One trial, from flags to numbers, in a process that ends afterwards."""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from time import perf_counter

from cudnn_sweep.workloads.gpu import gpu_uuid
from cudnn_sweep.workloads.measurement import Measurement, TrialRequest
from cudnn_sweep.workloads.measuring.calibration import calibrate
from cudnn_sweep.workloads.measuring.choice import read_choice, routes_at
from cudnn_sweep.workloads.measuring.cold import time_cold
from cudnn_sweep.workloads.measuring.compute_cache import ComputeCache
from cudnn_sweep.workloads.measuring.computed import compute
from cudnn_sweep.workloads.measuring.device import Device, find_device
from cudnn_sweep.workloads.measuring.loops import Loop
from cudnn_sweep.workloads.measuring.monitor import open_monitor
from cudnn_sweep.workloads.measuring.process_setup import apply_request, setting_of
from cudnn_sweep.workloads.measuring.roofline import note_roofline
from cudnn_sweep.workloads.measuring.steady import loss_of, measure_closed, measure_open
from cudnn_sweep.workloads.measuring.telemetry import Telemetry
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.user_sources import workload_hash
from cudnn_sweep.workloads.workload import TimedStep, Workload, find_workload


def run_trial(
    request: TrialRequest, measured: Measurement, report: Callable[[], None] = lambda: None
) -> None:
    """Measure what `request` asks for into `measured`, which keeps what it got where a step raises.

    `report` is called when all is measured and the untimed checks begin, which a workload may not
    survive.
    """
    cell = request.cell
    cache = apply_request(request, measured)
    workload = find_workload(cell.workload)
    with _phase(measured, "one_time"):
        device = find_device()
        workload.pay_one_time_costs(device.torch)
        uuid = gpu_uuid(0) if device.is_cuda else None
        telemetry = Telemetry(open_monitor(request.measure.telemetry, uuid))
    setting = setting_of(cell, device)
    try:
        with _phase(measured, "build"):
            step = workload.step(setting)
    finally:  # of code that fails too: that it was edited may be why
        with _noted(measured):
            measured.workload_hash = workload_hash(cell)
    arriving = cell.shapes().stream(cell.input_shape)
    with _phase(measured, "cold"):
        _measure_cold(request, step, arriving, device, measured)
    with _phase(measured, "calibration"):
        if request.measure.calibrate:
            measured.calibration = calibrate(device, setting.precision)
    with _phase(measured, "steady"):
        _measure_steady(request, workload, step, arriving, device, telemetry, measured)
    report()
    with _phase(measured, "checks"):
        with _noted(measured):
            measured.choice, work = read_choice(step, cell.input_shape, device)
            note_roofline(work, measured)
            others = {call.shape for call in measured.cold or ()} - {cell.input_shape}
            routes = routes_at(step, others) | set(measured.choice.routes or ())
            measured.choice.routes = sorted(routes)
            measured.accuracy = step.accuracy() if step.accuracy else None
        del step  # its memory is free for another
        with _noted(measured):
            measured.computed = compute(
                workload,
                setting,
                cell.input_shape,
                int(cell.cell_id, 16) % 2**31,  # not the replicate's: all processes compute alike
                reference=request.reference,
                flops=measured.choice.convolution_flops or 0,
            )
        _note_end(cache, measured)


def _measure_cold(
    request: TrialRequest,
    step: TimedStep,
    arriving: Iterator[Shape],
    device: Device,
    measured: Measurement,
) -> None:
    """Meet each distinct shape; where shapes never end, the first few of `arriving`."""
    cell, spec, memory = request.cell, request.measure, measured.memory
    period = cell.shapes().period(cell.input_shape)
    if period is None:
        unseen = islice(arriving, spec.open_cold_shapes)
    else:
        unseen = islice(dict.fromkeys(period), spec.cold_shapes)
        measured.regime_shapes = len(set(period))
    device.forget_peak()
    before = device.memory()
    memory.cold_allocated_bytes_before = before.allocated_bytes
    memory.cold_reserved_bytes_before = before.reserved_bytes
    measured.cold, measured.distinct_shapes = [], 0
    began = perf_counter()
    for call, result in time_cold(step, unseen, device):
        if not measured.cold:
            measured.loss_first = loss_of(result)
        measured.cold.append(call)
        measured.distinct_shapes += 1
        if perf_counter() - began > spec.cold_budget_s:
            break
    after = device.memory()
    memory.cold_allocated_bytes_after = after.allocated_bytes
    memory.cold_reserved_bytes_after = after.reserved_bytes
    memory.cold_peak_allocated_bytes = after.peak_allocated_bytes
    memory.cold_peak_reserved_bytes = after.peak_reserved_bytes


def _measure_steady(
    request: TrialRequest,
    workload: Workload,
    step: TimedStep,
    arriving: Iterator[Shape],
    device: Device,
    telemetry: Telemetry,
    measured: Measurement,
) -> None:
    """The closed loop where all shapes were met, else the open one."""
    cell, spec = request.cell, request.measure
    period = cell.shapes().period(cell.input_shape)
    try:
        if period is not None and measured.distinct_shapes == measured.regime_shapes:
            loop = Loop(step, period, workload.batches, device)
            measure_closed(loop, spec, telemetry, measured)
        else:
            unseen = list(islice(arriving, spec.open_steps))
            measure_open(step, unseen, spec, device, telemetry, measured)
            measured.open_new_shapes = _new_shapes(unseen, measured)
    finally:
        measured.telemetry = telemetry.summary(measured.wall.steady_iterations)


def _new_shapes(unseen: list[Shape], measured: Measurement) -> int:
    met = {call.shape for call in measured.cold or ()}
    return len(set(unseen[: measured.wall.steady_iterations]) - met)


def _note_end(cache: ComputeCache | None, measured: Measurement) -> None:
    host_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    measured.memory.peak_host_bytes = host_kib * 1024
    if cache is not None:
        measured.compute_cache_entries_added = cache.entries_added()


@contextmanager
def _noted(measured: Measurement) -> Iterator[None]:
    """A check that fails takes nothing back."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  # whatever a user's code raises
        measured.checks_error = f"{type(error).__name__}: {error}"


@contextmanager
def _phase(measured: Measurement, name: str) -> Iterator[None]:
    began = perf_counter()
    try:
        yield
    finally:
        measured.phases_s[name] = perf_counter() - began
