"""What the bundled workloads are: their cells' ids, which stored rows have, and what the controls compute."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from cudnn_sweep.workloads.catalog.controls import HIDDEN
from cudnn_sweep.workloads.find_workload import bundled_workloads, find_workload
from cudnn_sweep.workloads.problem import Shape
from tests.workloads.made_up_cells import one_cell, plain_context
from tests.workloads.made_up_models import examined

IMAGES = (32, 64, 56, 56)
SCRIPT = (64, 3, 256, 256)
IDS = {
    "lstm": ((64, 128, 512), "7f798c4b64fd7cd3"),
    "gru": ((64, 128, 512), "3ac00de0d424c114"),
    "batch_norm": (IMAGES, "e0683f9be883f5b2"),
    "max_pool": (IMAGES, "493deaf22284512a"),
    "relu": (IMAGES, "092a27b069c18253"),
    "sigmoid": (IMAGES, "a09dbcdafb33a8b6"),
    "tanh": (IMAGES, "c708a52d7d2fe81e"),
    "attention": ((8, 16, 512, 64), "015ccaf4d6b538a9"),
    "mnist": ((100, 1, 28, 28), "0d6828a326c869dd"),
    "noop": ((1, 1), "0c6c49d29006be71"),
    "tutorial_true_first": (SCRIPT, "8d1ed072d32e9518"),
    "tutorial_false_first": (SCRIPT, "438c5ceb226b07f4"),
    "tutorial_synchronised": (SCRIPT, "9b804e1a2af74333"),
}


def test_each_bundled_workload_has_the_cell_that_stored_rows_are_of() -> None:
    cells = {name: one_cell(name) for name in bundled_workloads() if name != "conv"}
    assert {name: (cell.input_shape, cell.cell_id) for name, cell in cells.items()} == IDS


def halved(images: torch.Tensor) -> torch.Tensor:
    pooled: torch.Tensor = functional.max_pool2d(images, 2)
    return pooled


def normal(images: torch.Tensor) -> torch.Tensor:
    """Give each channel of the batch the mean 0 and, but for a small term, the deviation 1."""
    centred = images - images.mean((0, 2, 3), keepdim=True)
    return centred / (centred.square().mean((0, 2, 3), keepdim=True) + 1e-5).sqrt()


def attended(heads: torch.Tensor) -> torch.Tensor:
    shares: torch.Tensor = (heads @ heads.transpose(2, 3) / heads.shape[-1] ** 0.5).softmax(-1)
    return shares @ heads


@pytest.mark.parametrize(
    ("name", "shape", "output", "function"),
    [
        ("max_pool", (2, 3, 6, 10), (2, 3, 3, 5), halved),
        ("max_pool", (1, 2, 7, 5), (1, 2, 3, 2), halved),
        ("relu", (2, 3, 4, 4), (2, 3, 4, 4), lambda x: x.clamp(min=0)),
        ("sigmoid", (2, 3, 4, 4), (2, 3, 4, 4), lambda x: 1 / (1 + (-x).exp())),
        ("tanh", (2, 3, 4, 4), (2, 3, 4, 4), lambda x: 1 - 2 / ((2 * x).exp() + 1)),
        ("attention", (2, 3, 4, 8), (2, 3, 4, 8), attended),
    ],
)
def test_a_control_computes_what_it_is_named_after(
    name: str, shape: Shape, output: Shape, function: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    """Forward, and the gradient of its input."""
    step = find_workload(name).step(plain_context("forward_backward"))
    assert step.examine is not None
    images, gradient = step.prepare(shape)
    assert gradient.shape == output
    found = step.examine((images, gradient))
    expected = function(images)
    torch.testing.assert_close(found["output"], expected)
    (wanted,) = torch.autograd.grad(expected, [images], gradient)
    torch.testing.assert_close(found["input_gradient"], wanted)
    alone = find_workload(name).step(plain_context("forward"))
    assert list(examined(alone, shape)) == ["output"]


def test_batch_norm_scales_the_channels_of_its_own_batch() -> None:
    step = find_workload("batch_norm").step(plain_context("forward_backward"))
    assert step.examine is not None
    images, gradient = step.prepare((2, IMAGES[1], 3, 5))
    found = step.examine((images, gradient))
    parts = {name: tuple(found[f"{name}_gradient"].shape) for name in ("weight", "bias")}
    assert parts == {"weight": (64,), "bias": (64,)}
    torch.testing.assert_close(found["bias_gradient"], gradient.sum((0, 2, 3)))
    unscaled = normal(images.detach())
    torch.testing.assert_close(found["weight_gradient"], (gradient * unscaled).sum((0, 2, 3)))


@pytest.mark.parametrize(("name", "gates"), [("lstm", 4), ("gru", 3)])
def test_recurrent_controls_have_one_layer_and_read_batch_first(name: str, gates: int) -> None:
    step = find_workload(name).step(plain_context("forward_backward"))
    found: dict[str, Any] = {
        key: tuple(value.shape) for key, value in examined(step, (2, 3, HIDDEN)).items()
    }
    weight, bias = (gates * 512, 512), (gates * 512,)
    assert found == {
        "output": (2, 3, 512),
        "input_gradient": (2, 3, 512),
        "weight_ih_l0_gradient": weight,
        "weight_hh_l0_gradient": weight,
        "bias_ih_l0_gradient": bias,
        "bias_hh_l0_gradient": bias,
    }
