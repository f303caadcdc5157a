"""Makes a timed step from a function of tensors."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.workload import Context, TimedStep

Pair = tuple[torch.Tensor, torch.Tensor]
DIRECTIONS = ("forward_backward", "forward")


def differentiable_step(
    context: Context,
    function: Callable[[torch.Tensor], torch.Tensor],
    parameters: Mapping[str, torch.Tensor],
    output_shape: Callable[[Shape], Shape] = lambda shape: shape,
) -> TimedStep:
    """Return a step that runs `function` and, unless the direction is `forward`, its backward pass.

    `function` must not draw random numbers.
    """

    def forward(numbers: torch.Tensor) -> torch.Tensor:
        return context.forward(function, numbers, draws=False)

    @torch.no_grad()
    def run_forward(numbers: torch.Tensor) -> None:
        forward(numbers)

    @torch.no_grad()
    def examine_forward(numbers: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"output": forward(numbers)}

    if context.direction == "forward":
        return TimedStep(prepare=context.random, run=run_forward, examine=examine_forward)

    def prepare(shape: Shape) -> Pair:
        gradient = context.random_gradient(output_shape(shape))
        return context.random(shape).requires_grad_(), gradient

    def run_both(inputs: Pair) -> None:
        numbers, gradient = inputs
        torch.autograd.grad(forward(numbers), [numbers, *parameters.values()], gradient)

    def examine_both(inputs: Pair) -> dict[str, torch.Tensor]:
        numbers, gradient = inputs
        output = forward(numbers)
        gradients = torch.autograd.grad(output, [numbers, *parameters.values()], gradient)
        names = [f"{name}_gradient" for name in ("input", *parameters)]
        return {"output": output, **dict(zip(names, gradients, strict=True))}

    for parameter in parameters.values():
        parameter.requires_grad_()
    return TimedStep(prepare=prepare, run=run_both, examine=examine_both)


@contextmanager
def around_autograd(wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Wrap `grad` and `backward` of torch.autograd inside the `with` block."""
    backward, grad = torch.autograd.backward, torch.autograd.grad
    torch.autograd.backward, torch.autograd.grad = wrap(backward), wrap(grad)
    try:
        yield
    finally:
        torch.autograd.backward, torch.autograd.grad = backward, grad
