"""Finds the kernels that a step runs, and computes the roofline of its convolutions.

The roofline is the shortest time in which the device could run the convolutions. See S. Williams,
A. Waterman, D. Patterson, "Roofline", Communications of the ACM 52(4), 2009.
"""

import re
from collections.abc import Callable, Iterable
from functools import partial
from statistics import median
from typing import Any

import torch

from cudnn_sweep.workloads.cells.measurement import Measurement
from cudnn_sweep.workloads.hardware import cuda_driver
from cudnn_sweep.workloads.hardware.cuda_driver import DriverError, GraphNode
from cudnn_sweep.workloads.hashes import content_hash
from cudnn_sweep.workloads.measuring import device_time
from cudnn_sweep.workloads.measuring.device import Device
from cudnn_sweep.workloads.measuring.device_time import CannotCapture, Graph, Step
from cudnn_sweep.workloads.measuring.layout_watch import LayoutWatch
from cudnn_sweep.workloads.measuring.step_watch import ConvolutionWork, StepWatch
from cudnn_sweep.workloads.measuring.tracing import losses_in
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.records.measured import Calibration, Choice, Kernel
from cudnn_sweep.workloads.workload import TimedStep

ROUNDS = 5  # number of times that a graph is replayed with and without some nodes
ROUND_MS = 5.0
MAX_REPLAYS = 50

# Names of cuDNN's kernels that only convert the layout of a tensor.
LAYOUT = re.compile(
    r"nchwTo(Folded)?Nhwc|(nhwc|folded|foldedNhwc)ToNchw|nchw2nhwc|nhwc2nchw|tensorTransform",
    re.IGNORECASE,
)
CONVERSION = "layout_conversion"
COPY = "direct_copy_kernel"  # PyTorch's kernel with which a convolution converts a layout
MEMORY = ("memset", "memcpy")
TRITON = "triton_"  # prefix of the kernels that torch.compile generates

# Names of convolution kernels, used if the operation that launched a kernel is unknown.
CONVOLVES = re.compile(
    r"[fdw](prop|grad)|conv|winograd|implicit_gemm|fft2d|cudnn|flip_filter", re.IGNORECASE
)


def read_choice(
    step: TimedStep, shape: Shape, device: Device, layout: str = "contiguous"
) -> tuple[Choice, list[ConvolutionWork]]:
    """Run a step at `shape`. Return its kernels and the work of its convolutions."""
    watch_of = StepWatch if layout == "contiguous" else LayoutWatch
    run = partial(step.run, step.prepare(shape))
    note = None
    if device.is_cuda and step.as_written is None:
        try:
            run()  # an open loop may not have called this shape
            device_time.check_capturable(step, run)
            return _from_graph(run, watch_of)
        except (CannotCapture, DriverError) as error:
            note = str(error)
    with watch_of() as watch:
        as_written(step)(step.prepare(shape))
    choice = _seen(watch)
    if device.is_cuda:
        nodes = [GraphNode(handle=0, name=name) for name, _ in device_time.profiled_kernels([run])]
        _note_kernels(choice, "profiler", [_launch(node, None) for node in nodes])
        choice.kernels_note = note
    return choice, watch.work


def routes_at(step: TimedStep, shapes: Iterable[Shape]) -> set[str]:
    """Run a step at each shape, and return the backends that PyTorch selects for convolutions."""
    routes: set[str] = set()
    for shape in shapes:
        with StepWatch() as watch:
            as_written(step)(step.prepare(shape))
        routes.update(watch.selected_routes)
    return routes


def as_written(step: TimedStep) -> Callable[[Any], Any]:
    return step.as_written or step.run


def _from_graph(run: Step, watch_of: type[StepWatch]) -> tuple[Choice, list[ConvolutionWork]]:
    watch = watch_of(
        count_launches=lambda: cuda_driver.count_captured(torch.cuda.current_stream().cuda_stream)
    )

    def watched() -> None:
        with watch:
            run()

    graph = device_time.capture(watched, after=run)
    nodes = cuda_driver.graph_nodes(graph.raw_cuda_graph())
    kernels = [
        _launch(node, operation)
        for node, operation in zip(nodes, _operations(watch, len(nodes)), strict=True)
    ]
    choice = _seen(watch)
    _note_kernels(choice, "graph", kernels)
    conversions = [
        node for node, kernel in zip(nodes, kernels, strict=True) if kernel.kind == CONVERSION
    ]
    choice.layout_conversion_ms = _saved_ms(graph, conversions)
    return choice, watch.work


def _seen(watch: StepWatch) -> Choice:
    layout_losses = None
    if isinstance(watch, LayoutWatch):
        lost = [watch.operations[n] for n in losses_in(watch.operations) if n is not None]
        layout_losses = list(dict.fromkeys(f"{by.layer}: {by.name}" for by in lost))
    return Choice(
        convolutions=len(watch.selected_routes),
        routes=sorted(set(watch.selected_routes)),
        convolution_inputs=sorted(watch.inputs),
        convolution_weights=sorted(watch.weights),
        cudnn_operations=sorted(watch.cudnn_operations),
        convolution_flops=sum(work.flops for work in watch.work),
        convolution_bytes=sum(work.bytes for work in watch.work),
        layout_losses=layout_losses,
    )


def _note_kernels(choice: Choice, source: str, kernels: list[Kernel]) -> None:
    choice.kernels_source = source
    choice.kernels = kernels
    choice.kernels_hash = kernels_hash(kernels)
    choice.layout_conversions = sum(kernel.kind == CONVERSION for kernel in kernels)


def _operations(watch: StepWatch, nodes: int) -> list[str | None]:
    """Return, for each node of a graph, the operation that launched it, if known."""
    names: list[str | None] = []
    for name, count in watch.launches:
        names += [name] * (count - len(names))
    return names + [None] * (nodes - len(names))


def _launch(node: GraphNode, operation: str | None) -> Kernel:
    return Kernel(
        name=node.name,
        operation=operation,
        kind=kind_of(node.name, operation),
        grid=node.grid,
        block=node.block,
        shared_bytes=node.shared_bytes,
    )


def _saved_ms(graph: Graph, nodes: list[GraphNode]) -> float:
    """Return how many milliseconds a replay of the graph would save without `nodes`."""
    if not nodes:
        return 0.0
    replays = max(1, min(MAX_REPLAYS, round(ROUND_MS / device_time.queued_ms(graph.replay, 1)[0])))
    executable = graph.raw_cuda_graph_exec()
    durations: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(ROUNDS):
        for enabled in (False, True):
            for node in nodes:
                cuda_driver.set_enabled(executable, node, enabled)
            durations[enabled] += device_time.queued_ms(graph.replay, 1 + replays)[1:]
    return median(durations[True]) - median(durations[False])


def kind_of(name: str, operation: str | None) -> str:
    """Return the kind of a kernel: `convolution`, `layout_conversion` or `other`."""
    if name.startswith(TRITON):
        return "other"
    convolves = "convolution" in (operation or "")  # for example cudnn_convolution_relu
    if LAYOUT.search(name) or (convolves and COPY in name):
        return CONVERSION
    if name in MEMORY:
        return "other"
    return "convolution" if convolves or (not operation and CONVOLVES.search(name)) else "other"


def kernels_hash(kernels: list[Kernel]) -> str | None:
    ran = [(kernel.name, kernel.grid) for kernel in kernels if kernel.kind == "convolution"]
    return content_hash(ran) if ran else None


def note_roofline(work: list[ConvolutionWork], measured: Measurement) -> None:
    """Store the roofline and, if the loop has one shape, the roofline divided by the step time."""
    least_ms = roofline_ms(work, measured.calibration)
    measured.choice.roofline_ms = least_ms
    step_ms = measured.device.steady_device_ms or measured.wall.steady_wall_ms
    if least_ms and step_ms and measured.loop_kind == "closed" and measured.regime_shapes == 1:
        measured.choice.roofline_share = least_ms / step_ms


def roofline_ms(work: list[ConvolutionWork], ceilings: Calibration) -> float | None:
    """Return the shortest possible time of the convolutions, or None if it is unknown."""
    tflops, gbps = ceilings.calibration_matmul_tflops, ceilings.calibration_copy_gbps
    if not work or not tflops or not gbps:
        return None
    return sum(max(part.flops / (tflops * 1e9), part.bytes / (gbps * 1e6)) for part in work)
