"""One convolution of a problem file, forward alone or with both backward passes."""

import torch
from torch.nn import functional

from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.workload import Setting, TimedStep, workload

CONVOLUTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}


@workload(directions=("forward_backward", "forward"), varies=("batch", "space"))
def conv(setting: Setting) -> TimedStep:
    """The backward passes yield the gradients of the input, the weight and the bias."""
    problem = setting.problem
    assert problem is not None, "planning gives this workload a problem"
    convolve = CONVOLUTIONS[len(problem.kernel_size)]
    channels = problem.input_shape[1] // problem.groups
    weight = setting.random((problem.out_channels, channels, *problem.kernel_size))
    bias = setting.random((problem.out_channels,)) if problem.bias else None
    sizes = (problem.stride, problem.padding, problem.dilation, problem.groups)
    parameters = [parameter for parameter in (weight, bias) if parameter is not None]

    def forward(images: torch.Tensor) -> torch.Tensor:
        with setting.region():
            return convolve(images, weight, bias, *sizes)

    @torch.no_grad()
    def run_forward(images: torch.Tensor) -> None:
        forward(images)

    @torch.no_grad()
    def examine_forward(images: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"output": forward(images)}

    if setting.direction == "forward":
        return TimedStep(prepare=setting.random, run=run_forward, examine=examine_forward)

    def prepare(shape: Shape) -> tuple[torch.Tensor, torch.Tensor]:
        output = convolve(torch.empty(shape, device="meta"), empty_weight, None, *sizes)
        gradient = setting.random_gradient(tuple(output.shape))
        return setting.random(shape).requires_grad_(), gradient

    def run_both(inputs: tuple[torch.Tensor, torch.Tensor]) -> None:
        images, gradient = inputs
        torch.autograd.grad(forward(images), [images, *parameters], gradient)

    def examine_both(inputs: tuple[torch.Tensor, torch.Tensor]) -> dict[str, torch.Tensor]:
        images, gradient = inputs
        output = forward(images)
        gradients = torch.autograd.grad(output, [images, *parameters], gradient)
        names = ("input_gradient", "weight_gradient", "bias_gradient")
        return {"output": output, **dict(zip(names, gradients, strict=False))}

    empty_weight = torch.empty_like(weight, device="meta", dtype=torch.float32)
    for parameter in parameters:
        parameter.requires_grad_()
    return TimedStep(prepare=prepare, run=run_both, examine=examine_both)
