"""The networks of our own, and one of a package."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from cudnn_sweep.workloads.nets.darknet import Darknet53
from cudnn_sweep.workloads.nets.dcgan import Generator
from cudnn_sweep.workloads.nets.diffusion import DiffusionUNet
from cudnn_sweep.workloads.nets.patch_embedding import PatchEmbedding
from cudnn_sweep.workloads.nets.speech import SpeechFeatures
from cudnn_sweep.workloads.nets.unet import UNet
from cudnn_sweep.workloads.nets.video_vae import VideoDecoder
from cudnn_sweep.workloads.nets.wavenet import WaveNet
from cudnn_sweep.workloads.problem import Shape
from tests.workloads.made_up_models import build, context, examined, losses

NETS = "cudnn_sweep.workloads.nets"


@pytest.mark.parametrize(
    ("name", "arguments", "shape", "outputs"),
    [
        ("unet:UNet", {"width": 2}, (1, 1, 32, 32), [(1, 2, 32, 32)]),
        ("unet:UNet", {"width": 2}, (1, 1, 37, 20), [(1, 2, 32, 16)]),
        (
            "unet:UNet",
            {"dims": 3, "in_channels": 2, "classes": 4, "width": 2},
            (1, 2, 16, 16, 32),
            [(1, 4, 16, 16, 32)],
        ),
        (
            "darknet:Darknet53",
            {"width": 2},
            (2, 3, 64, 32),
            [(2, 16, 8, 4), (2, 32, 4, 2), (2, 64, 2, 1)],
        ),
        (
            "wavenet:WaveNet",
            {"classes": 8, "width": 4, "layers": 4, "cycles": 2},
            (2, 8, 50),
            [(2, 8, 50)],
        ),
        ("dcgan:Generator", {"width": 4}, (2, 100, 1, 1), [(2, 3, 64, 64)]),
        (
            "video_vae:VideoDecoder",
            {"latents": 2, "width": 4, "depth": 1},
            (1, 2, 2, 2, 2),
            [(1, 3, 8, 16, 16)],
        ),
        ("patch_embedding:PatchEmbedding", {"width": 8}, (3, 3, 2, 14, 14), [(3, 8)]),
        ("speech:SpeechFeatures", {"width": 8}, (2, 1, 1000), [(2, 8, 2)]),
    ],
)
def test_our_networks_train_and_infer(
    name: str, arguments: dict[str, Any], shape: Shape, outputs: list[Shape]
) -> None:
    inference = build(f"{NETS}.{name}", context("inference", arguments=arguments))
    assert [tuple(tensor.shape) for tensor in examined(inference, shape).values()] == outputs
    training = build(f"{NETS}.{name}", context(arguments=arguments))
    found = losses(training, 4, shape)
    assert found[-1] < found[0]


@pytest.mark.parametrize(
    ("make", "weights"), [(UNet, 31_030_658), (Darknet53, 40_584_928), (Generator, 12_658_435)]
)
def test_our_networks_are_as_large_as_those_published(
    make: Callable[[], nn.Module], weights: int
) -> None:
    with torch.device("meta"):
        assert sum(weight.numel() for weight in make().parameters()) == weights


def test_a_diffusion_model_s_u_net_is_as_large_as_in_its_paper_and_keeps_the_shape() -> None:
    with torch.device("meta"):
        weights = sum(weight.numel() for weight in DiffusionUNet().parameters())
    assert round(weights / 1e6, 1) == 35.7  # Ho et al. 2020, appendix B
    images, times = torch.randn(2, 3, 16, 16), torch.tensor([0, 999])
    net = DiffusionUNet(width=8).eval()
    assert net(images, times).shape == images.shape
    assert not net(images, times).equal(net(images, times.flip(0))), "it knows the time"


@pytest.mark.parametrize(
    ("make", "inputs", "weights", "multiplications"),
    [
        (UNet, [(1, 1, 64, 64)], 31_030_658, 3_006_005_248),
        (Darknet53, [(1, 3, 64, 64)], 40_584_928, 580_255_744),
        (Generator, [(1, 100, 1, 1)], 12_658_435, 410_583_040),
        (DiffusionUNet, [(1, 3, 32, 32), (1,)], 35_746_307, 6_051_069_952),
        (WaveNet, [(1, 256, 64)], 735_424, 46_661_632),
        (VideoDecoder, [(1, 16, 2, 4, 4)], 122_968_067, 75_438_489_600),
        (PatchEmbedding, [(1, 3, 2, 14, 14)], 1_505_280, 1_505_280),
        (SpeechFeatures, [(1, 1, 1000)], 4_200_448, 148_605_952),
    ],
)
def test_a_network_stays_the_one_that_stored_results_are_of(
    make: Callable[[], nn.Module], inputs: list[Shape], weights: int, multiplications: int
) -> None:
    """Its code has no hash in a record, as a user's has."""
    found = 0

    def count(layer: nn.Module, given: tuple[torch.Tensor], made: torch.Tensor) -> None:
        nonlocal found
        places = given[0] if isinstance(layer, nn.modules.conv._ConvTransposeNd) else made
        assert isinstance(layer.weight, torch.Tensor)
        found += len(places) * places.shape[2:].numel() * layer.weight.numel()

    with torch.device("meta"):
        net = make().eval()
        for layer in net.modules():
            if isinstance(layer, nn.modules.conv._ConvNd):
                layer.register_forward_hook(count)
        net(*(torch.zeros(shape) for shape in inputs))
    assert sum(weight.numel() for weight in net.parameters()) == weights
    assert found == multiplications


def waves(shape: Shape, step: float) -> torch.Tensor:
    """Numbers between -1 and 1 that any machine makes alike."""
    numbers = torch.arange(1, torch.Size(shape).numel() + 1, dtype=torch.float64)
    return torch.sin(step * numbers).reshape(shape)


def digest(net: nn.Module, shape: Shape, *more: torch.Tensor) -> list[float]:
    """A sum over each output of a network whose weights and images are waves."""
    net = net.double().eval()
    with torch.no_grad():
        for number, weight in enumerate(net.parameters()):
            fan_in = weight[0].numel()
            weight.copy_(waves(tuple(weight.shape), 0.7 + 0.1 * number) / fan_in**0.5)
        made = net(waves(shape, 0.3), *more)
    parts = made if isinstance(made, tuple) else (made,)
    return [float((part * waves(tuple(part.shape), 0.9)).sum()) for part in parts]


@pytest.mark.parametrize(
    ("make", "shape", "more", "digests"),
    [
        (partial(UNet, width=2), (1, 1, 16, 32), [], [-0.9755663168]),
        (
            partial(Darknet53, width=2),
            (1, 3, 32, 32),
            [],
            [1.8247477426717236, 2.8865361817287516, 1.4844979500123237],
        ),
        (partial(DiffusionUNet, width=8, levels=(1, 2)), (1, 3, 4, 8), [3.0], [-2.9255195818]),
        (partial(WaveNet, classes=3, width=2, layers=3, cycles=2), (1, 3, 9), [], [0.8766320827]),
        (partial(VideoDecoder, latents=2, width=2, depth=1), (1, 2, 2, 2, 1), [], [-22.7497470517]),
    ],
    ids=["unet", "darknet", "diffusion", "wavenet", "video"],
)
def test_a_network_computes_what_it_did_when_results_were_stored(
    make: Callable[[], nn.Module], shape: Shape, more: list[float], digests: list[float]
) -> None:
    times = [torch.tensor([number]) for number in more]
    assert digest(make(), shape, *times) == pytest.approx(digests, rel=1e-6)


@pytest.mark.parametrize(
    ("make", "shape", "first"),
    [
        (partial(WaveNet, classes=3, width=8, layers=3, cycles=2), (1, 3, 9), (5, 5)),
        (partial(VideoDecoder, latents=2, width=2, depth=1), (1, 2, 3, 1, 1), (2, 8)),
    ],
    ids=["wavenet", "video"],
)
def test_nothing_that_comes_later_changes_what_was_made_before(
    make: Callable[[], nn.Module], shape: Shape, first: tuple[int, int]
) -> None:
    """`first`: the place in the input that changes, and the first in the output that may."""
    changed, made = first
    torch.manual_seed(1)
    net = make()
    inputs = torch.randn(shape)
    later = inputs.clone()
    later[:, :, changed:] += 1
    with torch.no_grad():
        for layer in net.modules():  # a norm over all frames sees the later ones
            if isinstance(layer, nn.GroupNorm):
                setattr(layer, "forward", lambda images: images)  # noqa: B010  # a method, to mypy
        before, after = net(inputs), net(later)
    torch.testing.assert_close(before[:, :, :made], after[:, :, :made])
    assert not before[:, :, made].equal(after[:, :, made])


@pytest.mark.parametrize(("samples", "features"), [(400, 1), (719, 1), (720, 2), (16_000, 49)])
def test_a_second_of_speech_has_a_feature_for_each_20_ms(samples: int, features: int) -> None:
    """Each is computed from 400 samples, the next from 320 samples later."""
    with torch.device("meta"):
        assert SpeechFeatures(width=8)(torch.zeros(1, 1, samples)).shape == (1, 8, features)
