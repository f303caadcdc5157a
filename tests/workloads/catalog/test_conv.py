"""What a convolution's step computes: its output and the gradients of all that it was given."""

from typing import Any

import pytest
import torch
from torch.nn import functional

from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.problem import ConvProblem
from tests.workloads.made_up_cells import plain_context, suite_of
from tests.workloads.made_up_models import examined


def problem(**sizes: Any) -> ConvProblem:
    return suite_of(workload="conv").problems["small"].model_copy(update=sizes).problem("small")


@pytest.mark.parametrize("bias", [False, True])
def test_gradients_are_of_input_weight_and_of_a_bias_if_there_is_one(bias: bool) -> None:
    step = find_workload("conv").step(plain_context("forward_backward", problem(bias=bias)))
    found = examined(step, (2, 4, 20, 24))
    gradients = {name: tuple(each.shape) for name, each in found.items() if "grad" in name}
    wanted = {"input_gradient": (2, 4, 20, 24), "weight_gradient": (8, 4, 3, 3)}
    assert gradients == wanted | ({"bias_gradient": (8,)} if bias else {})
    assert tuple(found["output"].shape) == (2, 8, 20, 24)


@pytest.mark.parametrize(
    ("direction", "name", "shape"),
    [
        ("backward_data", "input_gradient", (2, 4, 20, 24)),
        ("backward_filter", "weight_gradient", (8, 4, 3, 3)),
    ],
)
def test_each_gradient_alone_is_that_of_autograd(
    direction: str, name: str, shape: tuple[int, ...]
) -> None:
    torch.manual_seed(1)
    step = find_workload("conv").step(plain_context(direction, problem()))
    assert step.examine is not None
    images, gradient = inputs = step.prepare((2, 4, 20, 24))
    (found,) = step.examine(inputs).values()
    assert list(step.examine(inputs)) == [name] and tuple(found.shape) == shape
    if direction == "backward_filter":
        weight = torch.zeros(shape, requires_grad=True)
        functional.conv2d(images, weight, padding=1).backward(gradient)
        torch.testing.assert_close(found, weight.grad)
