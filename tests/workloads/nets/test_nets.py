"""The networks of our own, and one of a package."""

from collections.abc import Callable
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
