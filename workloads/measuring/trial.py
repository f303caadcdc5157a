"""Runs one trial: sets up the process, builds the step, and measures it."""

import gc
import resource
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from itertools import islice
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any, ParamSpec, TypeVar

import torch
from torch._guards import TracingContext
from torch.utils._pytree import tree_leaves

from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.measurement import Measurement, MeasureSpec, TrialRequest
from cudnn_sweep.workloads.differentiable import around_autograd
from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.find_state import state_type
from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.hardware.gpu import gpu_uuid
from cudnn_sweep.workloads.hardware.nvml import open_monitor
from cudnn_sweep.workloads.measuring.calibration import calibrate
from cudnn_sweep.workloads.measuring.captured import CapturedStep, executed
from cudnn_sweep.workloads.measuring.choice import as_written, note_roofline, read_choice, routes_at
from cudnn_sweep.workloads.measuring.compiling import CompileWatch
from cudnn_sweep.workloads.measuring.computed import compute
from cudnn_sweep.workloads.measuring.device import Device, find_device
from cudnn_sweep.workloads.measuring.process_setup import apply_request, context_of, count_compiled
from cudnn_sweep.workloads.measuring.ranks import Ranks, now, variables_of_ranks
from cudnn_sweep.workloads.measuring.steady import Loop, loss_of, measure_closed, measure_open
from cudnn_sweep.workloads.measuring.steady_in_turns import measure_in_turns
from cudnn_sweep.workloads.measuring.step_watch import StepWatch
from cudnn_sweep.workloads.measuring.telemetry import Telemetry
from cudnn_sweep.workloads.measuring.turns import Baton, Said, Turn
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.records.measured import ColdShape, RankResult
from cudnn_sweep.workloads.user_code import code_hash
from cudnn_sweep.workloads.warnings import WarningName
from cudnn_sweep.workloads.workload import TimedStep, Workload

P = ParamSpec("P")
T = TypeVar("T")


def workload_hash(cell: Cell) -> str | None:
    """Return a hash of the user's code for a cell, or None if the cell uses no such code."""
    model = cell.model
    inputs = model.inputs if model and isinstance(model.inputs, str) else ""
    return code_hash([cell.workload, model.loss if model else "", cell.own_regime or "", inputs])


def run_trial(
    request: TrialRequest,
    measured: Measurement,
    report: Callable[[], None] = lambda: None,
    baton: Baton | None = None,
    ranks: Ranks | None = None,
) -> None:
    """Run a trial and store its results in `measured`.

    `report` is called between the measurement and the untimed checks. `baton` lets the processes
    of a block take turns. `ranks` is None if the trial has only one process.
    """
    cell = request.cell
    apply_request(request, measured, ranks)
    if ranks is not None:
        measured.rank_variables = variables_of_ranks()
    workload = find_workload(cell.workload)
    with _phase(measured, "one_time"):
        device = find_device()
        # A ban may leave no engine for this step.
        with suppress(*[RuntimeError] * bool(request.config.errata)):
            workload.pay_one_time_costs(device.torch)
        uuid = gpu_uuid(0) if device.is_cuda else None
        telemetry = Telemetry(open_monitor(request.measure.telemetry, uuid))
        context = context_of(cell, device, request.config)
        if ranks is not None:
            ranks.join(device.torch)
            context = replace(context, distribute=ranks.distribute)
        compiling = CompileWatch(context.execution) if request.config.how.compiles else None
    if baton is not None:
        baton.pass_on(Said(one_time_s=measured.phases_s["one_time"]))
    try:
        with _phase(measured, "build"):
            regime = cell.shapes()
            arriving, period = regime.stream(cell.input_shape), regime.period(cell.input_shape)
            step = executed(workload.step(context), context.execution)
    finally:  # also if the build fails
        with _noted(measured):
            measured.workload_hash = workload_hash(cell)
    disk = compiling.naming_a_full_disk(request.compute_cache) if compiling else nullcontext()
    with _phase(measured, "cold"), disk:
        checked = _checking_shapes(step)
        _measure_cold(request.measure, checked, arriving, period, device, measured, compiling)
    context.check_in_force()
    if compiling is not None:
        compiling.note(measured.ran)
        compiling.end_workers()
    if not step.has_parameters:
        _check_ran(step, cell)
    with _phase(measured, "calibration"):
        if request.measure.calibrate:
            measured.calibration = calibrate(device, context.precision)
    if measured.distinct_shapes != measured.regime_shapes:
        period = None  # the loop is open, because it has further shapes
    unchanged = compiling.nothing_more() if compiling and period else nullcontext()
    with _phase(measured, "steady", baton), unchanged:
        took_turns = _measure_steady(
            request, workload, step, arriving, period, device, telemetry, measured, baton
        )
    if isinstance(step.run, CapturedStep):
        measured.ran.graph_replays = step.run.replays
    warnings = [*(measured.telemetry.warnings or ()), *sorted(step.warnings)]
    measured.telemetry.warnings = warnings
    if ranks is not None:
        ranks.leave()
        measured.rank_results = ranks.gather(_of_rank(ranks, uuid, measured)) or None
    report()
    if baton is not None and took_turns:
        baton.pass_on(Said())
    if ranks is not None:  # each rank checks its own step
        context, is_first = replace(context, distribute=None), not ranks.rank
        del step
        gc.collect()  # frees the distributed model, which refers to itself
        step = workload.step(context)
        request = replace(request, reference=request.reference and is_first)
    with _phase(measured, "checks"):
        with _noted(measured):
            measured.choice, work = read_choice(step, cell.input_shape, device, context.layout)
            note_roofline(work, measured)
            shapes = _shapes_met(measured) - {cell.input_shape}
            routes = routes_at(step, shapes) | set(measured.choice.routes or ())
            measured.choice.routes = sorted(routes)
            measured.accuracy = step.accuracy() if step.accuracy else None
        del step  # frees memory for the step that `compute` makes
        with _noted(measured):
            measured.computed, is_finite = compute(
                workload,
                context,
                cell.input_shape,
                int(cell.cell_id, 16) % 2**31,  # the same seed in all processes of a cell
                reference=request.reference,
                flops=measured.choice.convolution_flops or 0,
            )
            warnings += _numbers(measured, is_finite=is_finite)
        host_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        measured.memory.peak_host_bytes = host_kib * 1024
        if (before := measured.compute_cache_entries_before) is not None:
            entries = count_compiled(Path(request.compute_cache or ""))
            measured.compute_cache_entries_added = entries - before
    if ranks is not None:
        measured.rank_results = ranks.gather(_of_rank(ranks, uuid, measured)) or None


def _of_rank(ranks: Ranks, gpu_uuid: str | None, measured: Measurement) -> RankResult:
    return RankResult(
        rank=ranks.rank,
        gpu_uuid=gpu_uuid,
        device_ms=measured.device.steady_device_ms,
        wait_ms=measured.device.steady_wait_ms,
        kernels_hash=measured.choice.kernels_hash,
        fingerprint=measured.computed.fingerprint,
        cold_peak_reserved_bytes=measured.memory.cold_peak_reserved_bytes,
        steady_peak_reserved_bytes=measured.memory.steady_peak_reserved_bytes,
    )


def _check_ran(step: TimedStep, cell: Cell) -> None:
    inputs = step.prepare(cell.input_shape)
    with StepWatch(lambda: 0) as watch:
        as_written(step)(inputs)
    if not watch.launches:
        raise WorkloadError(
            f"model {cell.workload} has no parameters and ran no operation, "
            "so there is nothing to time"
        )


def _measure_cold(
    spec: MeasureSpec,
    step: TimedStep,
    arriving: Iterator[Shape],
    period: Sequence[Shape] | None,
    device: Device,
    measured: Measurement,
    compiling: CompileWatch | None,
) -> None:
    """Time the first two calls of each shape, up to the limits on shapes and time in `spec`."""
    memory = measured.memory
    if period is None:
        unseen = islice(arriving, spec.open_cold_shapes)
    else:
        unseen = islice(dict.fromkeys(period), spec.cold_shapes)
        measured.regime_shapes = len(set(period))
    device.forget_peak()
    device.note_memory(memory, "cold_{}_bytes_before")
    memory.cold_free_bytes, _ = device.free_bytes()
    measured.cold, measured.distinct_shapes = [], 0
    watch = step.run if isinstance(step.run, CapturedStep) else compiling
    began = now()
    for call, result in time_cold(step, unseen, device):
        if not measured.cold:
            measured.loss_first = loss_of(result)
            measured.own_times_ms = step.own_times_ms() if step.own_times_ms else None
        measured.cold.append(call)
        if watch is not None:
            watch.note_shape(measured.ran)
        measured.distinct_shapes += 1
        if now() - began > spec.cold_budget_s:
            break
    for column in ("cold_{}_bytes_after", "cold_{}_bytes"):
        device.note_memory(memory, column)


def time_cold(
    step: TimedStep, shapes: Iterable[Shape], device: Device
) -> Iterator[tuple[ColdShape, Any]]:
    """Call the step twice at each shape. Yield the times of both calls and the first result."""
    for shape in shapes:
        inputs = step.prepare(shape)
        first, result = split_call(step, inputs, device)
        second, _ = split_call(step, inputs, device)
        times = {f"first_{name}": ms for name, ms in first.items()}
        times |= {f"second_{name}": ms for name, ms in second.items()}
        yield ColdShape(shape=list(shape), **times), result


def split_call(step: TimedStep, inputs: Any, device: Device) -> tuple[dict[str, Any], Any]:
    """Run the step once. Return the times of the call and of its parts, and the result.

    `forward_ms` is the time before the first backward pass. `backward_ms` is the time of all
    backward passes. Only the total time `ms` is known for a CUDA graph.
    """
    is_graph = isinstance(step.run, CapturedStep)  # a capture must not be synchronised
    device.synchronise()
    began = perf_counter()
    watching = nullcontext(list[tuple[float, float]]()) if is_graph else _watching_autograd(device)
    with watching as passes:
        result = step.run(inputs)
    device.synchronise()
    total_s = perf_counter() - began
    times = {
        "ms": total_s * 1e3,
        "forward_ms": None if is_graph else (passes[0][0] - began if passes else total_s) * 1e3,
        "backward_ms": sum(end - start for start, end in passes) * 1e3 if passes else None,
    }
    return times, result


@contextmanager
def _watching_autograd(device: Device) -> Iterator[list[tuple[float, float]]]:
    """Yield a list, to which the start and end time of each backward pass are added."""
    passes: list[tuple[float, float]] = []
    running = False  # checkpointing calls autograd inside a backward pass

    def timed(run: Callable[P, T]) -> Callable[P, T]:
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            nonlocal running
            if running or TracingContext.try_get() is not None:  # a compiler is tracing
                return run(*args, **kwargs)
            running = True
            device.synchronise()
            began = perf_counter()
            try:
                return run(*args, **kwargs)
            finally:
                device.synchronise()
                passes.append((began, perf_counter()))
                running = False

        return call

    with around_autograd(timed):
        yield passes


def _measure_steady(
    request: TrialRequest,
    workload: Workload,
    step: TimedStep,
    arriving: Iterator[Shape],
    period: tuple[Shape, ...] | None,
    device: Device,
    telemetry: Telemetry,
    measured: Measurement,
    baton: Baton | None,
) -> bool:
    """Measure the loop, which is open if `period` is None. Return whether it took turns."""
    spec = request.measure
    try:
        if period is not None:
            loop = Loop(step, period, workload.batches, device)
            turn = baton.pass_on(_ready(request.cell, loop)) if baton else Turn(stage="alone")
            telemetry.know(turn.beside)
            if baton is not None and turn.stage != "alone":
                measure_in_turns(loop, spec, telemetry, measured, baton, turn)
                return True
            measure_closed(loop, spec, telemetry, measured)
        else:
            if baton is not None:
                turn = baton.pass_on(Said(alone="open loop"))
                telemetry.know(turn.beside)
            unseen = list(islice(arriving, spec.open_steps))
            measure_open(step, unseen, spec, device, telemetry, measured)
            timed = set(unseen[: measured.wall.steady_iterations])
            measured.open_new_shapes = len(timed - _shapes_met(measured))
    finally:
        measured.telemetry = telemetry.summary(measured.wall.steady_iterations)
    return False


def _ready(cell: Cell, loop: Loop) -> Said:
    free_bytes, total_bytes = loop.device.free_bytes()
    return Said(
        alone=_why_alone(cell),
        free_bytes=free_bytes,
        total_bytes=total_bytes,
        busy_cpus=loop.busy_cpus(),
    )


def _why_alone(cell: Cell) -> str | None:
    if state_type(cell.state).alone:
        return f"state {cell.state}"
    if threading.active_count() > 1:
        return "threads of its own"
    threads = Path("/proc/self/task").iterdir()
    has_children = any((thread / "children").read_text() for thread in threads)
    return "processes of its own" if has_children else None


def _shapes_met(measured: Measurement) -> set[Shape]:
    return {tuple(call.shape) for call in measured.cold or ()}


def _numbers(measured: Measurement, *, is_finite: bool) -> list[WarningName]:
    """Return a warning if a loss or another result is not finite."""
    first, last = measured.loss_first, measured.loss_last
    if not is_finite or (first is not None and not isfinite(first)):
        return ["not_finite"]
    return ["diverged"] if last is not None and not isfinite(last) else []


@contextmanager
def _noted(measured: Measurement) -> Iterator[None]:
    """Catch an error of the `with` block, and store it in `checks_error`."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  # user's code may raise anything
        measured.checks_error = f"{type(error).__name__}: {error}"


@contextmanager
def _phase(measured: Measurement, name: str, baton: Baton | None = None) -> Iterator[None]:
    """Store the duration of a phase, without the time in which other processes had the baton."""
    began = perf_counter() - (baton.waited_s if baton else 0.0)
    try:
        yield
    finally:
        waited_s = baton.waited_s if baton else 0.0
        measured.phases_s[name] = perf_counter() - waited_s - began


def _checking_shapes(step: TimedStep) -> TimedStep:
    """Return a step that warns if its inputs do not have the requested shape."""

    def prepare(shape: Shape) -> Any:
        inputs = step.prepare(shape)
        tensors = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
        if tensors and not _have(shape, tensors):
            step.warnings.add("other_shapes")
        return inputs

    return replace(step, prepare=prepare)


def _have(shape: Shape, tensors: list[torch.Tensor]) -> bool:
    """Return whether a batch, as one tensor or as separate images, has the sizes of `shape`."""
    batch, wanted = shape[0], Counter(shape[2:])
    of_space = [tensor for tensor in tensors if wanted <= Counter(tensor.shape)]
    return len(of_space) == batch or any(
        tensor.shape[0] == batch and wanted <= Counter(tensor.shape[1:]) for tensor in of_space
    )
