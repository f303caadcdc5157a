"""The layout of a tensor as torch hands it to cuDNN."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from cudnn_sweep.orchestrator.planning.spec import load_suite
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.expand import expand_cells
from cudnn_sweep.workloads.cells.suite import workload_names
from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.layout import has_one_order, layout_of, memory_format
from cudnn_sweep.workloads.measuring.device import Device, find_device
from cudnn_sweep.workloads.measuring.process_setup import context_of
from cudnn_sweep.workloads.measuring.step_watch import StepWatch
from cudnn_sweep.workloads.nets.darknet import Darknet53
from cudnn_sweep.workloads.nets.dcgan import Generator
from cudnn_sweep.workloads.nets.diffusion import DiffusionUNet
from cudnn_sweep.workloads.nets.patch_embedding import PatchEmbedding
from cudnn_sweep.workloads.nets.unet import UNet
from cudnn_sweep.workloads.nets.video_vae import VideoDecoder
from cudnn_sweep.workloads.problem import Shape, load_problems
from cudnn_sweep.workloads.survey import workload_facts
from tests.workloads.made_up_cells import MODEL, MeasureCell, one_cell, plain_context

PLAIN = torch.empty(2, 6, 4, 4)
LAST = PLAIN.contiguous(memory_format=torch.channels_last)
VOLUME = torch.empty(2, 6, 3, 4, 4).contiguous(memory_format=torch.channels_last_3d)


@pytest.mark.parametrize(
    ("tensors", "layout"),
    [
        ((PLAIN,), "contiguous"),
        ((PLAIN, LAST), "channels_last"),
        ((VOLUME,), "channels_last"),
        ((LAST[:, :3],), "channels_last"),
        ((LAST[:, :, ::2],), "channels_last"),
        ((LAST[:, :1, :1, :1].contiguous(),), "contiguous"),
        ((torch.empty(2, 1, 4, 4).contiguous(memory_format=torch.channels_last),), "contiguous"),
        ((PLAIN[:, :1].expand(2, 6, 4, 4),), "contiguous"),
        ((LAST[:0],), "contiguous"),
        ((LAST[0],), "contiguous"),
    ],
)
def test_layout_is_told_by_the_strides(tensors: tuple[torch.Tensor, ...], layout: str) -> None:
    """Also of a part of an image's channels or rows, which is not dense."""
    assert layout_of(*tensors) == layout


def is_by_strides(images: torch.Tensor, weight: torch.Tensor) -> bool:
    """Return whether a convolution is channels_last by the strides alone that `lay_out` gave its weight."""
    by_weight = (layout_of(images), layout_of(weight)) == ("contiguous", "channels_last")
    return by_weight and has_one_order(weight.shape)


def layouts_of(net: nn.Module, *inputs: torch.Tensor) -> list[tuple[str, bool]]:
    """The layout in which torch runs each convolution of a forward pass, in order, and whether it is by strides."""
    layouts: list[tuple[str, bool]] = []

    def note(module: nn.Module, given: tuple[torch.Tensor, ...]) -> None:
        operands = given[0], module.get_parameter("weight")
        layouts.append((layout_of(*operands), is_by_strides(*operands)))

    for part in net.modules():
        if isinstance(part, nn.modules.conv._ConvNd):
            part.register_forward_pre_hook(note)
    with torch.no_grad():
        net.eval()(*inputs)
    return layouts


class Contiguous(nn.Module):
    """A layer that loses channels_last, as attention does."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.contiguous()


def attention() -> nn.Module:
    return nn.Sequential(nn.Conv2d(8, 16, 3), Contiguous(), nn.Conv2d(16, 8, 1))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Shape]] = {
    "one channel": (partial(nn.Conv2d, 1, 16, 3), (2, 1, 8, 8)),
    "one pixel": (partial(nn.Conv2d, 16, 4, 1), (2, 16, 1, 1)),
    "behind a contiguous tensor": (attention, (2, 8, 8, 8)),
    "U-Net": (partial(UNet, width=4), (1, 1, 32, 32)),
    "U-Net of volumes": (partial(UNet, dims=3, width=4), (1, 1, 16, 16, 16)),
    "diffusion": (DiffusionUNet, (1, 3, 32, 32)),
    "video decoder": (partial(VideoDecoder, latents=2, width=4, depth=1), (1, 2, 2, 2, 2)),
    "patch embedding": (PatchEmbedding, (4, 3, 2, 14, 14)),
    "Darknet-53": (partial(Darknet53, width=2), (1, 3, 64, 32)),
    "DCGAN": (partial(Generator, width=8), (2, 100, 1, 1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_a_trial_lays_a_network_out_as_a_script_does(name: str) -> None:
    """A script calls `.to(memory_format=...)` of the model and of its input."""
    make, shape = NETWORKS[name]
    context = plain_context("inference", layout="channels_last")
    others = (torch.tensor([3]),) if name == "diffusion" else ()
    torch.manual_seed(0)
    of_a_trial = layouts_of(context.place(make()), context.random(shape), *others)
    form = memory_format("channels_last", len(shape))
    net = make().to(memory_format=form)  # type: ignore[call-overload]
    of_a_script = layouts_of(net, torch.randn(shape).to(memory_format=form), *others)
    assert of_a_trial == of_a_script
    assert "channels_last" in {layout for layout, _ in of_a_trial}
    by_strides = {"behind a contiguous tensor", "diffusion"}
    assert getattr(make, "by_strides", name in by_strides) == (name in by_strides)
    if len(shape) == 4:  # convolutions of volumes return contiguous tensors on a CPU
        assert any(by for _, by in of_a_trial) == (name in by_strides)


def test_a_trial_lays_a_problem_out_as_a_script_does() -> None:
    """Shapes alone, on torch's device without memory."""
    context = plain_context(
        "forward", layout="channels_last", device=Device(torch=torch.device("meta"))
    )
    for problem in load_problems().values():
        for shape in (problem.input_shape, problem.weight_shape):
            wanted = torch.empty(shape, device="meta").to(
                memory_format=memory_format("channels_last", len(shape))
            )
            assert context.random(shape).stride() == wanted.stride(), problem.name


MODELS = load_suite("models")
NAMES = workload_names(MODELS)


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in NAMES if ":" in name])
def test_planning_knows_which_networks_are_channels_last_by_strides(name: str) -> None:
    """Found from each convolution of a step on the GPU, whose kernels keep layouts that a CPU's lose."""
    pytest.importorskip(name.split(".")[0])
    cells = expand_cells(
        MODELS,
        dict.fromkeys(NAMES, MODEL) | workload_facts([name, "mnist"]),
        device="cuda",
        gpu="any",
    )
    cells = [
        cell
        for cell in cells
        if (cell.workload, cell.layout, cell.regime) == (name, "channels_last", "fixed")
    ]
    for cell in cells:
        step = find_workload(name).step(context_of(cell, find_device()))
        inputs = step.prepare(cell.input_shape)
        with LayoutWatch() as watch:
            step.run(inputs)
        first = has_one_order(cell.input_shape)
        assert (first or any(watch.by_strides)) == bool(cell.placement), cell


class LayoutWatch(StepWatch):
    """Notes of each convolution whether its weight's strides alone make it channels_last."""

    def __init__(self) -> None:
        super().__init__()
        self.by_strides: list[bool] = []

    def note_forward(self, sizes: Any, output: torch.Tensor) -> None:
        super().note_forward(sizes, output)
        self.by_strides.append(is_by_strides(*sizes[:2]))


@pytest.mark.parametrize("direction", ["forward_backward", "backward_filter"])
def test_weights_alone_are_channels_last_in_layout_weights(direction: str) -> None:
    cell = one_cell("conv", problem="small", layout="weights", direction=direction)
    assert cell.placement == "", "no row is older than the layout"
    step = find_workload("conv").step(context_of(cell, Device(torch=torch.device("cpu"))))
    with StepWatch() as watch:
        step.run(step.prepare(cell.input_shape))
    assert watch.inputs == {"float32 contiguous"}
    wanted = {"float32 channels_last"} if direction == "forward_backward" else watch.weights
    assert watch.weights == wanted


def test_a_trial_has_its_configs_layout_and_precision_and_reads_them_back(
    measured: MeasureCell,
) -> None:
    cell, config = one_cell("conv"), Config(layout="weights", precision="bf16")
    found = measured(cell, config)
    assert found.config == config
    assert found.choice.convolution_inputs == ["bfloat16 contiguous"]
    assert found.choice.convolution_weights == ["bfloat16 channels_last"]
    plain = measured(cell)
    assert plain.choice.convolution_weights == ["float32 contiguous"]
    errors = found.computed.relative_l2_error, plain.computed.relative_l2_error
    assert errors[0] and errors[1] and errors[0] > 1e3 * errors[1]


@pytest.mark.parametrize(
    ("shape", "one"),
    [
        ((2, 1, 4, 4), True),
        ((2, 3, 1, 1), True),
        ((2, 3, 4, 1), False),
        ((2, 3, 1, 1, 1), True),
        ((2, 1, 3, 4, 4), True),
        ((2, 3, 1), False),
        ((2, 1, 1, 1, 1, 1), False),
    ],
)
def test_one_channel_or_one_pixel_has_one_order(shape: Shape, one: bool) -> None:
    assert has_one_order(shape) is one


@pytest.mark.parametrize(
    ("sizes", "strides", "layout"),
    [
        ((2, 3, 4, 4), (48, 1, 12, 3), "channels_last"),
        ((2, 3, 4, 4), (48, 16, 4, 1), "contiguous"),
        ((2, 3, 4, 4), (96, 1, 12, 3), "channels_last"),
        ((2, 3, 4, 4), (48, 0, 12, 3), "contiguous"),
        ((0, 3, 4, 4), (48, 1, 12, 3), "contiguous"),
        ((2, 3, 4, 4), (0, 1, 12, 3), "contiguous"),
        ((2, 3, 1, 1), (3, 1, 3, 3), "channels_last"),
        ((1, 1, 1, 1), (1, 1, 1, 1), "contiguous"),
        ((2, 1, 1, 1), (1, 1, 1, 1), "contiguous"),
        ((2, 3), (3, 1), "contiguous"),
    ],
)
def test_strides_are_read_as_torch_reads_them(sizes: Shape, strides: Shape, layout: str) -> None:
    assert layout_of(torch.empty(200).as_strided(sizes, strides)) == layout
