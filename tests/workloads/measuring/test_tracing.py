"""What a trace lists of a model, against what its layers say."""

from collections.abc import Callable
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


def test_groups_and_bias() -> None:
    found = layer("grouped", 2, 6, 10, 10)
    assert (found.input_shape, found.weight_shape) == ((2, 6, 10, 10), (8, 3, 3, 3))
    assert (found.groups, found.bias, found.stride, found.padding) == (2, True, (1, 1), (1, 1))
    assert found.flops == 2 * (2 * 8 * 10 * 10) * (3 * 3 * 3)
    assert (found.dtype, found.precision, found.layout) == ("float32", "tf32", "contiguous")
    assert found.times == 1
    assert found.route


def test_depthwise() -> None:
    found = layer("depthwise", 1, 6, 8, 8)
    assert (found.groups, found.out_channels, found.bias) == (6, 12, False)
    assert found.flops == 2 * (12 * 6 * 6) * 9


def test_stride_and_dilation() -> None:
    found = layer("dilated", 1, 6, 9, 9)
    assert (found.kernel_size, found.stride, found.padding) == ((1, 3), (2, 2), (0, 2))
    assert found.dilation == (2, 2)
    assert found.flops == 2 * (4 * 5 * 5) * (6 * 3)


def test_transposed() -> None:
    found = layer("transposed", 1, 6, 5, 5)
    assert (found.transposed, found.weight_shape, found.out_channels) == (True, (6, 2, 3, 3), 4)
    assert found.output_padding == (1, 1)
    assert found.flops == 2 * (6 * 5 * 5) * (2 * 9)


def test_one_and_three_dimensions() -> None:
    assert layer("line", 2, 6, 20).flops == 2 * (2 * 4 * 16) * (6 * 5)
    assert layer("line", 2, 6, 20).kernel_size == (5,)
    assert layer("transposed line", 2, 6, 20).flops == 2 * (2 * 6 * 20) * (4 * 3)
    assert layer("volume", 1, 6, 4, 5, 6).flops == 2 * (4 * 4 * 3 * 4) * (6 * 9)


def test_every_route_has_a_name() -> None:
    routes = {layer("transposed line", 2, 6, 20).route, layer("transposed", 1, 6, 5, 5).route}
    assert not any("?" in route for route in routes)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_asymmetric_padding_leaves_the_convolution_that_follows_it() -> None:
    found = layer("even", 1, 6, 8, 8)
    assert (found.input_shape, found.padding) == ((1, 6, 9, 9), (0, 0))


def test_repeated_convolutions_are_counted_in_order() -> None:
    found = trace("Layers", (1, 6, 8, 8), names=["square", "point", "square", "relu", "square"])
    assert [each.times for each in found.convolutions] == [3, 1]
    assert list(found.named()) == ["conv1_3x3_6", "conv2_1x1_6"]
    square, point = 2 * (6 * 64) * 54, 2 * (6 * 64) * 6
    assert (found.count, found.flops) == (4, 3 * square + point)
    assert found.share(found.convolutions[0]) == pytest.approx(3 * square / found.flops)


def test_an_input_that_is_missing_is_said() -> None:
    with pytest.raises(WorkloadError, match="missing 1 required .*as in --inputs .{image: "):
        trace("TwoInputs", (1, 3, 8, 8))


def test_several_inputs_are_given_in_order() -> None:
    found = trace(
        "TwoInputs", (1, 3, 8, 8), [{"shape": ["batch", 3, 8, 8]}, {"shape": [1, 2, 4, 4, 4]}]
    )
    assert [each.input_shape for each in found.convolutions] == [(1, 3, 8, 8), (1, 2, 4, 4, 4)]


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


def test_float64_is_no_precision_of_ours() -> None:
    found = layer("float64", 1, 6, 8, 8)
    assert (found.dtype, found.precision) == ("float64", None)


@pytest.mark.parametrize("shape", [(2, 6, 8, 8), (1, 6, 4, 8, 8)])
def test_channels_last_is_seen(shape: Shape) -> None:
    name = "square" if len(shape) == 4 else "volume"
    assert layer(name, *shape, layout="channels_last").layout == "channels_last"
    assert layer(name, *shape).layout == "contiguous"


def test_layout_where_strides_are_a_tie_is_torchs_own_choice() -> None:
    assert layer("point", 2, 6, 8, 8, layout="channels_last").layout == "channels_last"
    assert layer("point", 2, 6, 8, 8).layout == "contiguous"
    assert layer("point", 2, 6, 1, 1, layout="channels_last").layout == "contiguous"
    assert layer("line", 2, 6, 8, layout="channels_last").layout == "contiguous"


def test_one_channel_and_its_filters_lie_as_contiguous_ones() -> None:
    options: dict[str, Any] = {"in_channels": 1, "out_channels": 4, "kernel_size": 3}
    found = trace("torch.nn:Conv2d", (2, 1, 8, 8), layout="channels_last", **options)
    assert found.convolutions[0].layout == "contiguous"


def test_inference_needs_no_batch_to_normalise_over() -> None:
    assert trace("Layers", (1, 6, 1, 1), names=["normalised"], training=False).count == 1
    with pytest.raises(WorkloadError, match="Expected more than 1 value per channel"):
        trace("Layers", (1, 6, 1, 1), names=["normalised"])


def test_convolutions_under_inference_mode_are_seen() -> None:
    assert layer("inference", 1, 6, 8, 8).padding == (1, 1)


@pytest.mark.filterwarnings("ignore:`torch.jit.trace")
def test_traced_modules_are_seen() -> None:
    assert trace("scripted", (1, 6, 8, 8)).convolutions[0].out_channels == 4


def test_module_made_already() -> None:
    assert trace("ready", (1, 6, 8, 8)).convolutions[0].out_channels == 4
    with pytest.raises(
        WorkloadError, match=":ready is a module already: no arguments, found width"
    ):
        trace("ready", (1, 6, 8, 8), width=2)


def test_network_of_monai() -> None:
    found = trace(
        "monai.networks.nets:UNet",
        (1, 1, 16, 16, 16),
        spatial_dims=3,
        in_channels=1,
        out_channels=2,
        channels=[4, 8],
        strides=[2],
    )
    down, bottom, up = found.convolutions
    assert (down.input_shape, down.weight_shape) == ((1, 1, 16, 16, 16), (4, 1, 3, 3, 3))
    assert (bottom.input_shape, bottom.weight_shape) == ((1, 4, 8, 8, 8), (8, 4, 3, 3, 3))
    assert (up.input_shape, up.transposed, up.out_channels) == ((1, 12, 8, 8, 8), True, 2)
    assert down.flops == 2 * (4 * 8**3) * 27


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("no_such_module:Net", "no_such_module cannot be imported"),
        ("torch.nn:Conv9d", "torch.nn.*'Conv9d'"),
        ("tensor", "returned a Tensor; allowed: a torch.nn.Module"),
        ("math:pi", "math:pi is a float; allowed: a class derived"),
        ("cudnn_sweep.workloads.catalog.mnist:mnist", "is a workload, which a suite's `cells` may"),
        ("torch.nn:Conv2d", "torch.nn:Conv2d: missing a required argument: 'in_channels'; allow"),
        ("broken", ":broken cannot be made: ValueError: no such width"),
        ("torch.nn:ReLU", "torch.nn:ReLU ran no convolution at input 2x3x4x4"),
        ("ready", "ready at input 2x3x4x4 fails: RuntimeError: Given groups=1, .* but got 3 channels"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_one_line(model: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=message) as found:
        trace(model, (2, 3, 4, 4))
    assert "\n" not in str(found.value)
