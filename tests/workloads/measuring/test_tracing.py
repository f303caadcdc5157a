"""What a trace lists of a model, against what its layers say."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.measuring.model_trace import trace_model
from cudnn_sweep.workloads.measuring.tracing import Trace, TracedConvolution, TraceRequest
from cudnn_sweep.workloads.problem import Shape


class Layers(nn.Module):
    """Layers as in `names`, one after another."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        made: dict[str, Callable[[], nn.Module]] = {
            "grouped": lambda: nn.Conv2d(6, 8, 3, padding=1, groups=2),
            "depthwise": lambda: nn.Conv2d(6, 12, 3, groups=6, bias=False),
            "dilated": lambda: nn.Conv2d(6, 4, (1, 3), stride=2, padding=(0, 2), dilation=2),
            "transposed": lambda: nn.ConvTranspose2d(6, 4, 3, 2, 1, output_padding=1, groups=2),
            "line": lambda: nn.Conv1d(6, 4, 5, bias=False),
            "volume": lambda: nn.Conv3d(6, 4, (1, 3, 3), bias=False),
            "transposed line": lambda: nn.ConvTranspose1d(6, 4, 3, bias=False),
            "even": lambda: nn.Conv2d(6, 4, 2, padding="same", bias=False),
            "square": lambda: nn.Conv2d(6, 6, 3, padding=1, bias=False),
            "normalised": lambda: nn.Sequential(nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6)),
            "point": lambda: nn.Conv2d(6, 6, 1, bias=False),
            "float64": lambda: InFloat64(),
            "inference": lambda: InInference(),
            "relu": nn.ReLU,
        }
        self.layers = nn.Sequential(*(made[name]() for name in names))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers(images)
        return found


class InFloat64(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        weight = torch.ones(6, 6, 1, 1, dtype=torch.float64)
        return functional.conv2d(images.double(), weight).to(images.dtype)


class InInference(nn.Module):
    @torch.inference_mode()
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        weight = torch.ones(6, 6, 3, 3, dtype=images.dtype)
        return functional.conv2d(images, weight, padding="same")


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 1), nn.Conv3d(2, 5, 1)

    def forward(self, image: torch.Tensor, volume: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.first(image).sum() + self.second(volume).sum()
        return found


def scripted() -> nn.Module:
    traced: nn.Module = torch.jit.trace(nn.Conv2d(6, 4, 3), torch.ones(1, 6, 8, 8))
    return traced


def tensor() -> torch.Tensor:
    return torch.ones(2)


def broken() -> nn.Module:
    raise ValueError("no such width")


ready = nn.Conv2d(6, 4, 3)


def trace(
    model: str,
    input: Shape,
    inputs: Any = None,
    precision: str = "tf32",
    layout: str = "contiguous",
    training: bool = True,
    **arguments: Any,
) -> Trace:
    return trace_model(
        TraceRequest(
            model=model if ":" in model else f"{__file__}:{model}",
            input=input,
            inputs=inputs,
            arguments=arguments,
            precision=precision,
            layout=layout,
            direction="training" if training else "inference",
        )
    )


def layer(name: str, *shape: int, **options: Any) -> TracedConvolution:
    (found,) = trace("Layers", shape, names=[name], **options).convolutions
    return found


GROUPED = {
    "weight_shape": (8, 3, 3, 3),
    "groups": 2,
    "bias": True,
    "stride": (1, 1),
    "padding": (1, 1),
}
GROUPED |= {"dtype": "float32", "precision": "tf32", "layout": "contiguous", "times": 1}
DILATED = {"kernel_size": (1, 3), "stride": (2, 2), "padding": (0, 2), "dilation": (2, 2)}
TRANSPOSED = {"transposed": True, "weight_shape": (6, 2, 3, 3), "out_channels": 4}
LINE = {"flops": 2 * (2 * 4 * 16) * (6 * 5), "kernel_size": (5,)}


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize(
    ("name", "shape", "told"),
    [
        ("grouped", (2, 6, 10, 10), GROUPED | {"flops": 2 * (2 * 8 * 10 * 10) * (3 * 3 * 3)}),
        ("depthwise", (1, 6, 8, 8), {"groups": 6, "bias": False, "flops": 2 * (12 * 6 * 6) * 9}),
        ("dilated", (1, 6, 9, 9), DILATED | {"flops": 2 * (4 * 5 * 5) * (6 * 3)}),
        ("transposed", (1, 6, 5, 5), TRANSPOSED | {"flops": 2 * (6 * 5 * 5) * (2 * 9)}),
        ("transposed", (1, 6, 5, 5), {"output_padding": (1, 1)}),
        ("line", (2, 6, 20), LINE),
        ("transposed line", (2, 6, 20), {"flops": 2 * (2 * 6 * 20) * (4 * 3)}),
        ("volume", (1, 6, 4, 5, 6), {"flops": 2 * (4 * 4 * 3 * 4) * (6 * 9)}),
        # padding that is not the same on both sides leaves the convolution, which follows it
        ("even", (1, 6, 8, 8), {"input_shape": (1, 6, 9, 9), "padding": (0, 0)}),
        ("float64", (1, 6, 8, 8), {"dtype": "float64", "precision": None}),
        ("inference", (1, 6, 8, 8), {"padding": (1, 1)}),
    ],
)
def test_a_convolution_is_listed_as_its_layer_says(
    name: str, shape: Shape, told: dict[str, object]
) -> None:
    found = layer(name, *shape)
    assert {key: getattr(found, key) for key in told} == told
    assert found.route and "?" not in found.route
    assert name == "even" or found.input_shape == shape


def test_repeated_convolutions_are_counted_in_order() -> None:
    found = trace("Layers", (1, 6, 8, 8), names=["square", "point", "square", "relu", "square"])
    assert [each.times for each in found.convolutions] == [3, 1]
    assert list(found.named()) == ["conv1_3x3_6", "conv2_1x1_6"]
    square, point = 2 * (6 * 64) * 54, 2 * (6 * 64) * 6
    assert (found.count, found.flops) == (4, 3 * square + point)
    assert found.share(found.convolutions[0]) == pytest.approx(3 * square / found.flops)


def test_an_input_that_is_missing_is_said() -> None:
    with pytest.raises(WorkloadError, match="missing 1 required .*\nTry: --inputs .{image: "):
        trace("TwoInputs", (1, 3, 8, 8))


@pytest.mark.parametrize(
    ("precision", "dtype", "of_the_convolution"),
    [
        ("fp32", "float32", "fp32"),
        ("tf32", "float32", "tf32"),
        ("bf16", "bfloat16", "bf16"),
        ("amp_bf16", "bfloat16", "bf16"),
        ("amp_fp16", "float16", "fp16"),
    ],
)
def test_precision_is_that_at_the_operation(
    precision: str, dtype: str, of_the_convolution: str
) -> None:
    found = layer("square", 1, 6, 8, 8, precision=precision)
    assert (found.dtype, found.precision) == (dtype, of_the_convolution)


@pytest.mark.parametrize("shape", [(2, 6, 8, 8), (1, 6, 4, 8, 8)])
def test_channels_last_is_seen(shape: Shape) -> None:
    name = "square" if len(shape) == 4 else "volume"
    assert layer(name, *shape, layout="channels_last").layout == "channels_last"
    assert layer(name, *shape).layout == "contiguous"


def test_layout_where_strides_are_a_tie_is_that_of_a_script() -> None:
    assert layer("point", 2, 6, 8, 8, layout="channels_last").layout == "channels_last"
    assert layer("point", 2, 6, 8, 8).layout == "contiguous"
    assert layer("point", 2, 6, 1, 1, layout="channels_last").layout == "channels_last"
    assert layer("line", 2, 6, 8, layout="channels_last").layout == "contiguous"
    one_channel: dict[str, Any] = {"in_channels": 1, "out_channels": 4, "kernel_size": 3}
    found = trace("torch.nn:Conv2d", (2, 1, 8, 8), layout="channels_last", **one_channel)
    assert found.convolutions[0].layout == "channels_last"


def test_inference_needs_no_batch_to_normalise_over() -> None:
    assert trace("Layers", (1, 6, 1, 1), names=["normalised"], training=False).count == 1
    with pytest.raises(WorkloadError, match="Expected more than 1 value per channel"):
        trace("Layers", (1, 6, 1, 1), names=["normalised"])


@pytest.mark.filterwarnings("ignore:`torch.jit.trace")
def test_traced_modules_are_seen() -> None:
    assert trace("scripted", (1, 6, 8, 8)).convolutions[0].out_channels == 4


def read(file: Path) -> Trace:
    """What is traced of the model that this file names."""
    return trace(file.read_text(), (2, 3, 4, 4))


def test_lazy_modules_are_traced() -> None:
    """Their parameters are made by a first call, which counts no convolution."""
    lazy: dict[str, Any] = {"out_channels": 4, "kernel_size": 3}
    (found,) = trace("torch.nn:LazyConv2d", (2, 3, 8, 8), **lazy).convolutions
    assert (found.weight_shape, found.times) == ((4, 3, 3, 3), 1)


class Normed(nn.Sequential):
    """A norm of a kind between two convolutions."""

    def __init__(self, kind: str) -> None:
        super().__init__(nn.Conv2d(8, 64, 3), getattr(nn, kind)(64), nn.Conv2d(64, 8, 3))


@pytest.mark.gpu
def test_conversions_of_a_layer_that_loses_its_layout_take_time_and_vanish_with_it() -> None:
    took = {}
    for kind in ("InstanceNorm2d", "BatchNorm2d"):
        found = trace("Normed", (8, 8, 128, 128), layout="channels_last", kind=kind)
        took[kind] = sum(operation.conversion_ms or 0 for operation in found.operations)
        losing = [operation.layer for operation in found.operations if operation.loses]
        assert losing == ["1 (InstanceNorm2d)"] * (kind == "InstanceNorm2d")
    assert took["BatchNorm2d"] < 0.1 * took["InstanceNorm2d"]
