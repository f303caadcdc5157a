"""Runs a forward pass of a user's model and records the operations."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, cast

import torch
from torch.nn.parameter import is_lazy
from torch.profiler import ProfilerActivity

from cudnn_sweep.workloads.errors import UserCodeError, WorkloadError
from cudnn_sweep.workloads.hardware.cpus import usable_cpus
from cudnn_sweep.workloads.hardware.environment import processor
from cudnn_sweep.workloads.layout import layout_of
from cudnn_sweep.workloads.measuring.choice import CONVERSION, kind_of
from cudnn_sweep.workloads.measuring.device_time import profiler
from cudnn_sweep.workloads.measuring.layout_watch import MARK, LayoutWatch
from cudnn_sweep.workloads.measuring.tracing import (
    Trace,
    TracedConvolution,
    TracedOperation,
    TraceRequest,
)
from cudnn_sweep.workloads.models.inputs import Called, make_prepare, what_to_try
from cudnn_sweep.workloads.models.steps import ALLOWED, Source, is_source, make_module, placed
from cudnn_sweep.workloads.precision import Precision, find_precision
from cudnn_sweep.workloads.problem import sizes_text
from cudnn_sweep.workloads.user_code import import_named
from cudnn_sweep.workloads.workload import Context, Workload

ACTIVITIES = ProfilerActivity.CPU, ProfilerActivity.CUDA
CONVERTS_INSIDE = re.compile("norm|upsample|pool")  # operations that convert layouts by copying


class ConvolutionWatch(LayoutWatch):
    """Counts the calls of each distinct forward convolution."""

    def __init__(self, precision: Precision, *, profiled: bool) -> None:
        super().__init__(profiled=profiled)
        self.seen: Counter[TracedConvolution] = Counter()
        float32 = "fp32" if precision.conv_fp32 == "ieee" else "tf32"
        self._precisions = {torch.float32: float32, torch.bfloat16: "bf16", torch.float16: "fp16"}

    def note_forward(self, sizes: Any, output: torch.Tensor) -> None:
        super().note_forward(sizes, output)
        images, weight, bias, stride, padding, dilation, transposed, added, groups = sizes
        convolution = TracedConvolution(
            input_shape=tuple(images.shape),
            weight_shape=tuple(weight.shape),
            bias=bias is not None,
            stride=tuple(stride),
            padding=tuple(padding),
            dilation=tuple(dilation),
            groups=groups,
            transposed=transposed,
            output_padding=tuple(added),
            dtype=str(images.dtype).removeprefix("torch."),
            precision=self._precisions.get(images.dtype),
            layout=layout_of(images, weight),
            route=self.routes[-1],
            flops=self.work[-1].flops,
        )
        self.seen[convolution] += 1


def trace_model(request: TraceRequest) -> Trace:
    """Trace a model's forward pass. Raises WorkloadError if it fails or runs no convolution."""
    precision = find_precision(request.precision)
    cuda = torch.cuda.is_available()
    torch.set_num_threads(usable_cpus())
    precision.apply()
    context = Context(
        device=torch.device("cuda" if cuda else "cpu"),
        precision=precision,
        layout=request.layout,
        direction=request.direction,
        problem=None,
    )
    watch = _run(_build(request), request, context)
    if not watch.seen:
        raise WorkloadError(
            f"{request.model} ran no convolution at input {sizes_text(request.input)}"
        )
    return Trace(
        request=request,
        torch=torch.__version__,
        device=torch.cuda.get_device_name() if cuda else processor(),
        convolutions=[replace(layer, times=times) for layer, times in watch.seen.items()],
        operations=watch.operations,
        on_gpu=cuda,
    )


def _build(request: TraceRequest) -> torch.nn.Module:
    source = import_named(request.model)
    if isinstance(source, Workload):
        raise WorkloadError(
            f"{request.model} is a workload, which belongs in a suite's `cells`; allowed: {ALLOWED}"
        )
    if not is_source(source):
        raise WorkloadError(f"{request.model} is a {type(source).__name__}; allowed: {ALLOWED}")
    return make_module(request.model, cast(Source, source), request.arguments)


def _run(module: torch.nn.Module, request: TraceRequest, context: Context) -> ConvolutionWatch:
    training, on_gpu = request.direction == "training", context.device.type == "cuda"
    watch = ConvolutionWatch(context.precision, profiled=on_gpu)
    try:
        net = placed(module, context).train(training)
        called: Called = (context.random(request.input),), {}
        if request.inputs is not None:
            called = make_prepare(request.inputs, context)(request.input)
        if on_gpu or any(map(is_lazy, net.parameters())):
            _call(net, called, training, context)
        with profiler(*ACTIVITIES) if on_gpu else nullcontext() as profiled, watch:
            _call(net, called, training, context)
        if profiled is not None:
            watch.operations = with_conversions(watch.operations, profiled.events())
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        at = f"{request.model} at input {sizes_text(request.input)}"
        cause = f"{type(error).__name__}: {' '.join(str(error).split())}"
        hint = what_to_try(error, request.input)
        raise UserCodeError(f"{at} fails: {cause}{hint}") from error
    return watch


def _call(net: torch.nn.Module, called: Called, training: bool, context: Context) -> None:
    with torch.set_grad_enabled(training), context.region():
        net(*called[0], **called[1])


def with_conversions(
    operations: Sequence[TracedOperation], events: Iterable[Any]
) -> list[TracedOperation]:
    """Return the operations with the times of their layout conversions, read from a profile."""
    spent: Counter[int] = Counter()
    for event in events:
        part = event
        while part is not None and not part.name.startswith(MARK):
            part = part.cpu_parent
        for kernel in event.kernels if part else ():
            number = int(part.name.removeprefix(MARK))
            operation = operations[number]
            inside = "convolution" if CONVERTS_INSIDE.search(operation.name) else operation.name
            is_kind = operation.converts or kind_of(kernel.name, inside) == CONVERSION
            spent[number] += kernel.duration * (is_kind and kernel.name != part.name)
    return [_with_ms(operation, n, spent[n] / 1e3) for n, operation in enumerate(operations)]


def _with_ms(operation: TracedOperation, number: int, ms: float) -> TracedOperation:
    is_inside = ms > 0 and not operation.converts
    operation = replace(operation, conversion_ms=ms, pays=operation.pays or is_inside)
    if is_inside and operation.lost_by is None and "convolution" not in operation.name:
        return replace(operation, loses=True, lost_by=number)
    return operation
