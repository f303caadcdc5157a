"""One convolution of a problem file: its three operations alone, or forward with both backward ones."""

import torch
from torch.nn import functional

from cudnn_sweep.workloads.differentiable import DIRECTIONS, Pair, differentiable_step
from cudnn_sweep.workloads.problem import ConvProblem, Shape
from cudnn_sweep.workloads.workload import Setting, TimedStep, workload

PLAIN = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
TRANSPOSED = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}

# Which of input's, weight's and bias's gradients autograd's backward operation computes.
GRADIENTS = {
    "backward_data": ("input_gradient", [True, False, False]),
    "backward_filter": ("weight_gradient", [False, True, False]),
}


@workload(
    directions=(*DIRECTIONS, *GRADIENTS),
    varies=("batch", "space"),
    recomputes=True,
)
def conv(setting: Setting) -> TimedStep:
    """A problem's convolution: its three operations alone, or forward with both backward ones."""
    problem = setting.problem
    assert problem is not None, "planning gives this workload a problem"
    weight = setting.random(problem.weight_shape)
    if setting.direction in GRADIENTS:
        return _backward(setting, problem, weight)
    bias = setting.random((problem.out_channels,)) if problem.bias else None
    parameters = {"weight": weight} | ({} if bias is None else {"bias": bias})
    return differentiable_step(
        setting,
        lambda images: _convolve(problem, images, weight, bias),
        parameters,
        problem.output_shape,
    )


def _backward(setting: Setting, problem: ConvProblem, weight: torch.Tensor) -> TimedStep:
    """The operation that autograd calls, with one gradient asked for."""
    name, asked = GRADIENTS[setting.direction]

    def prepare(shape: Shape) -> Pair:
        gradient = setting.random_gradient(problem.output_shape(shape))
        return setting.random(shape).to(gradient.dtype), gradient

    def gradient_of(inputs: Pair) -> torch.Tensor:
        images, output_gradient = inputs
        found = torch.ops.aten.convolution_backward(
            output_gradient, images, weights, None, *_sizes(problem), asked
        )
        gradient: torch.Tensor = next(tensor for tensor in found if tensor is not None)
        return gradient

    def run(inputs: Pair) -> None:
        gradient_of(inputs)

    # Autocast would have handed the operation its own type.
    weights = weight.to(setting.random_gradient((1,)).dtype)
    return TimedStep(prepare=prepare, run=run, examine=lambda inputs: {name: gradient_of(inputs)})


def _convolve(
    problem: ConvProblem, images: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """By the functional form that a module calls: on a CPU autocast knows no other."""
    spatial = len(problem.kernel_size)
    stride, padding, groups, dilation = (
        problem.stride,
        problem.padding,
        problem.groups,
        problem.dilation,
    )
    if not problem.transposed:
        return PLAIN[spatial](images, weight, bias, stride, padding, dilation, groups)
    added = problem.output_padding
    return TRANSPOSED[spatial](images, weight, bias, stride, padding, added, groups, dilation)


def _sizes(problem: ConvProblem) -> tuple[Shape, Shape, Shape, bool, Shape, int]:
    """As the operation below the functional forms takes them."""
    return (
        problem.stride,
        problem.padding,
        problem.dilation,
        problem.transposed,
        problem.output_padding,
        problem.groups,
    )
