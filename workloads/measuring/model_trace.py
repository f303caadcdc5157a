"""Runs a user's model once and notes its convolutions; in throw-away processes only."""

from collections import Counter
from dataclasses import replace
from typing import Any, cast

import torch
from torch.nn.parameter import is_lazy

from cudnn_sweep.workloads.errors import UserCodeError, WorkloadError
from cudnn_sweep.workloads.hardware.cpus import usable_cpus
from cudnn_sweep.workloads.hardware.environment import processor
from cudnn_sweep.workloads.layout import layout_of
from cudnn_sweep.workloads.measuring.step_watch import StepWatch
from cudnn_sweep.workloads.measuring.tracing import Trace, TracedConvolution, TraceRequest
from cudnn_sweep.workloads.models.inputs import Called, make_prepare, what_to_try
from cudnn_sweep.workloads.models.lazy import placed
from cudnn_sweep.workloads.models.steps import ALLOWED, Source, is_source, make_module
from cudnn_sweep.workloads.precision import Precision, find_precision
from cudnn_sweep.workloads.problem import sizes_text
from cudnn_sweep.workloads.user_code import import_named
from cudnn_sweep.workloads.workload import Context, Workload


class ConvolutionWatch(StepWatch):
    """A watch that counts equal forward convolutions."""

    def __init__(self, precision: Precision) -> None:
        super().__init__()
        self.seen: Counter[TracedConvolution] = Counter()
        self._precision = precision

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
            precision=_precision_of(images.dtype, self._precision),
            layout=layout_of(images, weight),
            route=self.routes[-1],
            flops=self.work[-1].flops,
        )
        self.seen[convolution] += 1


def trace_model(request: TraceRequest) -> Trace:
    """Return the model's convolutions. Raises WorkloadError if it is unknown, fails, or runs no convolution."""
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
    seen = _run(_build(request), request, context)
    if not seen:
        raise WorkloadError(
            f"{request.model} ran no convolution at input {sizes_text(request.input)}"
        )
    return Trace(
        request=request,
        torch=torch.__version__,
        device=torch.cuda.get_device_name() if cuda else processor(),
        convolutions=[replace(convolution, times=times) for convolution, times in seen.items()],
    )


def _build(request: TraceRequest) -> torch.nn.Module:
    source = import_named(request.model)
    if isinstance(source, Workload):
        raise WorkloadError(
            f"{request.model} is a workload, which a suite's `cells` may name itself; allowed: {ALLOWED}"
        )
    if not is_source(source):
        raise WorkloadError(f"{request.model} is a {type(source).__name__}; allowed: {ALLOWED}")
    return make_module(request.model, cast(Source, source), request.arguments)


def _run(
    module: torch.nn.Module, request: TraceRequest, context: Context
) -> Counter[TracedConvolution]:
    training = request.direction == "training"
    watch = ConvolutionWatch(context.precision)
    try:
        net = placed(module, context).train(training)
        called: Called = (context.random(request.input),), {}
        if request.inputs is not None:
            called = make_prepare(request.inputs, context)(request.input)
        if any(map(is_lazy, net.parameters())):
            net(*called[0], **called[1])
        with torch.set_grad_enabled(training), context.region(), watch:
            net(*called[0], **called[1])
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        at = f"{request.model} at input {sizes_text(request.input)}"
        cause = f"{type(error).__name__}: {' '.join(str(error).split())}"
        hint = what_to_try(error, request.input)
        raise UserCodeError(f"{at} fails: {cause}{hint}") from error
    return watch.seen


def _precision_of(dtype: torch.dtype, precision: Precision) -> str | None:
    """Return the precision of one convolution; under autocast some stay in float32."""
    float32 = "fp32" if precision.conv_fp32 == "ieee" else "tf32"
    return {torch.float32: float32, torch.bfloat16: "bf16", torch.float16: "fp16"}.get(dtype)
