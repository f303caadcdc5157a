"""Who loses channels_last, and who pays. A CPU's 2D convolutions keep the layout, as a GPU's do."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional

from cudnn_sweep.workloads.measuring.choice import read_choice
from cudnn_sweep.workloads.measuring.device import Device
from cudnn_sweep.workloads.measuring.layout_watch import MARK, LayoutWatch, order_of
from cudnn_sweep.workloads.measuring.model_trace import with_conversions
from cudnn_sweep.workloads.measuring.tracing import TracedOperation, losses_in
from cudnn_sweep.workloads.workload import TimedStep
from tests.workloads.made_up_cells import plain_context


class Normalised(nn.Module):
    """A norm between two convolutions, the second of which is followed by a smaller one."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(8, 16, 3), norm
        self.after = nn.Sequential(nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Conv2d(16, 8, 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.after(functional.relu(self.norm(self.first(images))))
        return result


class Framed(nn.Module):
    """Frames of zeros are joined to an image; one that `kept` lays out keeps the layout."""

    def __init__(self, *, kept: bool) -> None:
        super().__init__()
        self.first, self.after, self.kept = nn.Conv2d(8, 16, 3), nn.Conv2d(16, 8, 3), kept

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        inner = self.first(images)
        border = torch.zeros_like(inner[:, :, :1]) if self.kept else torch.zeros(2, 16, 1, 14)
        result: torch.Tensor = self.after(torch.cat([border, inner, border], 2))
        return result


class Frames(nn.Module):
    """A video's frames are convolved as images; `copied`: between the two in NCTHW order."""

    def __init__(self, *, copied: bool) -> None:
        super().__init__()
        self.first, self.after, self.copied = nn.Conv2d(8, 16, 3), nn.Conv2d(16, 8, 3), copied

    def forward(self, video: torch.Tensor) -> torch.Tensor:
        inner = self.first(video.transpose(1, 2).reshape(8, 8, 16, 16))
        inner = inner.view(2, 4, 16, 14, 14).transpose(1, 2)
        inner = inner.contiguous() if self.copied else inner
        result: torch.Tensor = self.after(inner.transpose(1, 2).reshape(8, 16, 14, 14))
        return result


IMAGES, VIDEO = torch.randn(2, 8, 16, 16), torch.randn(2, 8, 4, 16, 16)


def losses(
    net: nn.Module, images: torch.Tensor = IMAGES, *, layout: str = "channels_last"
) -> list[tuple[str, str, list[str]]]:
    """Layer and operation of each loss, empty for an input's, and the layers that pay."""
    context, watch = plain_context("inference", layout=layout), LayoutWatch()
    net, images = context.place(net), context.like_inputs(images)
    with torch.no_grad(), watch:
        net(images)
    found = []
    for number, payers in losses_in(watch.operations).items():
        layer, name = "", ""
        if number is not None:
            layer, name = watch.operations[number].layer, watch.operations[number].name
        found.append((layer, name, [payer.layer for payer in payers]))
    return found


@pytest.mark.parametrize(
    ("net", "images", "found"),
    [
        (Normalised(nn.BatchNorm2d(16)), IMAGES, []),
        (
            Normalised(nn.InstanceNorm2d(16)),
            IMAGES,
            [("norm (InstanceNorm2d)", "clone", ["after.0 (Conv2d)"])],
        ),
        (Framed(kept=True), IMAGES, []),
        (Framed(kept=False), IMAGES, [("Framed", "cat", ["after (Conv2d)"])]),
        (Frames(copied=False), VIDEO, []),
        (Frames(copied=True), VIDEO, [("Frames", "clone", ["after (Conv2d)"])]),
    ],
)
def test_the_first_layer_of_a_loss_is_named_and_who_pays(
    net: nn.Module, images: torch.Tensor, found: list[tuple[str, str, list[str]]]
) -> None:
    assert losses(net, images) == found


def test_a_second_loss_is_its_own_and_what_follows_the_first_is_not() -> None:
    net = nn.Sequential(*(Normalised(nn.InstanceNorm2d(16)) for _ in range(2)))
    layers = [layer for layer, _, _ in losses(net)]
    assert layers == ["0.norm (InstanceNorm2d)", "1.norm (InstanceNorm2d)"]


def test_weights_alone_in_channels_last_make_the_first_convolution_pay_for_the_input() -> None:
    net = Normalised(nn.BatchNorm2d(16))
    assert losses(net, layout="weights") == [("", "", ["first (Conv2d)"])]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_trial_notes_the_losses_of_its_step_unless_it_is_contiguous(device: str) -> None:
    """On a GPU the step is watched while its graph is captured."""
    own = Device(torch=torch.device(device))
    context = plain_context("inference", layout="channels_last", device=own)
    net = context.place(Normalised(nn.InstanceNorm2d(16)))
    step = TimedStep(prepare=context.random, run=lambda images: net(images))
    chosen, _ = read_choice(step, (2, 8, 16, 16), own, "channels_last")
    assert chosen.layout_losses == ["norm (InstanceNorm2d): clone"]
    assert chosen.kernels_source == {"cpu": None, "cuda": "graph"}[device]
    assert read_choice(step, (2, 8, 16, 16), own)[0].layout_losses is None


@pytest.mark.parametrize(
    ("tensor", "order"),
    [
        (IMAGES, "contiguous"),
        (IMAGES.to(memory_format=torch.channels_last), "channels_last"),
        (VIDEO.to(memory_format=torch.channels_last_3d).transpose(1, 2), "channels_last"),
        (VIDEO.transpose(1, 2), "contiguous"),
        (IMAGES[:, :1], None),
        (IMAGES[:, :, :1, :1], None),
        (IMAGES[0, 0], None),
        (IMAGES[:1, :, :1], "contiguous"),
        (IMAGES.to(memory_format=torch.channels_last)[:1, :, :1], "channels_last"),
    ],
)
def test_an_order_is_of_the_sizes_that_lie_closest(tensor: torch.Tensor, order: str | None) -> None:
    assert order_of(tensor) == order


def test_a_backward_pass_pays_if_gradient_and_input_differ_in_layout() -> None:
    layer = nn.Conv2d(8, 8, 3, padding=1)
    last = torch.channels_last
    for images, order, pays in ((IMAGES, last, True), (IMAGES, torch.contiguous_format, False)):
        with LayoutWatch() as watch:
            made = layer(images.clone().requires_grad_())
            made.backward(torch.ones_like(made).contiguous(memory_format=order))
        (backward,) = (each for each in watch.operations if each.name == "convolution_backward")
        assert (backward.pays, backward.layer) == (pays, "backward")


COPY = "at::native::direct_copy_kernel_cuda"
TO_NHWC = "cudnn::engines_precompiled::nchwToNhwcKernel"


def test_conversions_are_told_by_strides_and_kernels_and_a_cast_is_none() -> None:
    """An event of a profile is of the operation that it is inside of; its annotation on the GPU is no kernel."""
    plain = TracedOperation(
        name="",
        layer="",
        takes=[],
        returns=[],
        lost_by=None,
        loses=False,
        pays=False,
        converts=False,
    )
    kernels = {
        "clone": [(COPY, 1000)],
        "_to_copy": [(COPY, 1000)],
        "convolution": [(TO_NHWC, 300), ("implicit_gemm", 5000), (COPY, 200)],
        "upsample_trilinear3d": [(COPY, 400), ("upsample_kernel", 900)],
        "relu": [("vectorized_elementwise_kernel", 100)],
    }
    operations = [replace(plain, name=name, converts=name == "clone") for name in kernels]
    events = []
    for number, launched in enumerate(kernels.values()):
        mark = SimpleNamespace(name=f"{MARK}{number}", cpu_parent=None, kernels=[])
        launches = [SimpleNamespace(name=name, duration=us) for name, us in launched]
        whole = SimpleNamespace(name=mark.name, duration=9999)
        inner = SimpleNamespace(name="aten::x", cpu_parent=mark, kernels=[*launches, whole])
        events += [mark, inner]
    events.append(SimpleNamespace(name="beside", cpu_parent=None, kernels=launches))
    found = with_conversions(operations, events)
    assert [each.conversion_ms for each in found] == [1.0, 0.0, 0.5, 0.4, 0.0]
    assert [each.name for each in found if each.pays] == ["convolution", "upsample_trilinear3d"]
    assert [each.name for each in found if each.loses] == ["upsample_trilinear3d"]
    assert {number: len(payers) for number, payers in losses_in(found).items()} == {None: 1, 3: 1}
