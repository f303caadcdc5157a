from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from cudnn_sweep.workloads.differentiable import DIRECTIONS, Pair, differentiable_step
from cudnn_sweep.workloads.problem import ConvProblem, Shape
from cudnn_sweep.workloads.workload import Context, TimedStep, workload

# Name of the gradient, and whether the input, weight and bias get a gradient.
GRADIENTS = {
    "backward_data": ("input_gradient", [True, False, False]),
    "backward_filter": ("weight_gradient", [False, True, False]),
}


@workload(directions=(*DIRECTIONS, *GRADIENTS), varies=("batch", "space"), recomputes=True)
def conv(context: Context) -> TimedStep:
    """One convolution, with the sizes of a `problem`."""
    problem = context.problem
    assert problem is not None, "a cell of the workload conv needs a `problem`"
    weight = context.random_weight(problem.weight_shape)
    if context.direction in GRADIENTS:
        return _backward(context, problem, weight)
    bias = context.random((problem.out_channels,)) if problem.bias else None
    parameters = {"weight": weight} | ({} if bias is None else {"bias": bias})
    function, sizes = _functional(problem)
    return differentiable_step(
        context,
        lambda images: function(images, weight, bias, *sizes),
        parameters,
        problem.output_shape,
    )


def _backward(context: Context, problem: ConvProblem, weight: torch.Tensor) -> TimedStep:
    name, wanted = GRADIENTS[context.direction]

    def prepare(shape: Shape) -> Pair:
        gradient = context.random_gradient(problem.output_shape(shape))
        return context.random(shape).to(gradient.dtype), gradient

    def gradient_of(inputs: Pair) -> torch.Tensor:
        images, output_gradient = inputs
        gradients = torch.ops.aten.convolution_backward(
            output_gradient, images, weights, None, *sizes, wanted
        )
        gradient: torch.Tensor = next(tensor for tensor in gradients if tensor is not None)
        return gradient

    def run(inputs: Pair) -> None:
        context.forward(gradient_of, inputs)

    # These are in the order of the parameters of `aten.convolution_backward`.
    sizes = (
        problem.stride,
        problem.padding,
        problem.dilation,
        problem.transposed,
        problem.output_padding,
        problem.groups,
    )
    # Under autocast, autograd converts the weight to autocast's type before this operation.
    weights = weight.to(context.random_gradient((1,)).dtype)
    return TimedStep(prepare=prepare, run=run, examine=lambda inputs: {name: gradient_of(inputs)})


def _functional(problem: ConvProblem) -> tuple[Callable[..., torch.Tensor], tuple[Any, ...]]:
    """Return a convolution function, and its arguments after the bias."""
    first, spatial = (problem.stride, problem.padding), len(problem.kernel_size)
    if problem.transposed:
        last = (problem.output_padding, problem.groups, problem.dilation)
        return getattr(functional, f"conv_transpose{spatial}d"), (*first, *last)
    return getattr(functional, f"conv{spatial}d"), (*first, problem.dilation, problem.groups)
