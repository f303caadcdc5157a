"""The networks of our own, and one of a package."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from cudnn_sweep.workloads.nets.darknet import Darknet53
from cudnn_sweep.workloads.nets.dcgan import Generator
from cudnn_sweep.workloads.nets.diffusion import DiffusionUNet
from cudnn_sweep.workloads.nets.unet import UNet
from cudnn_sweep.workloads.nets.video_vae import VideoDecoder
from cudnn_sweep.workloads.nets.wavenet import WaveNet
from cudnn_sweep.workloads.problem import Shape
from tests.workloads.made_up_models import build, computed, examined, losses, setting


@pytest.mark.parametrize(
    ("dims", "shape"), [(2, (2, 1, 16, 16)), (3, (2, 1, 8, 8, 8))], ids=["2d", "3d"]
)
def test_a_package_s_network_trains(dims: int, shape: Shape) -> None:
    arguments = {"spatial_dims": dims, "in_channels": 1, "out_channels": 3}
    arguments |= {"channels": [4, 8], "strides": [2]}  # type: ignore[dict-item]
    wanted = setting(arguments=arguments, loss="cross_entropy", optimiser="adam")
    step = build("monai.networks.nets:UNet", wanted)
    found = losses(step, 5, shape)
    assert found[-1] < found[0]
    assert computed("monai.networks.nets:UNet", wanted, shape).bitwise_repeatable


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
    inference = build(f"{NETS}.{name}", setting("inference", arguments=arguments))
    assert [tuple(tensor.shape) for tensor in examined(inference, shape).values()] == outputs
    training = build(f"{NETS}.{name}", setting(arguments=arguments))
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


@torch.no_grad()
def test_a_video_s_decoder_sees_no_later_frame() -> None:
    net = VideoDecoder(latents=2, width=4, depth=1).double().eval()
    norms = [each for each in net.modules() if isinstance(each, nn.GroupNorm)]
    for norm in norms:  # a group norm looks at all frames; what is tested are the convolutions
        norm.register_forward_hook(lambda _module, inputs, _output: inputs[0])
    latents = torch.randn(1, 2, 3, 2, 2, dtype=torch.float64)
    changed = latents.clone()
    changed[:, :, 2] += 1
    differs = (net(latents) != net(changed)).any(dim=(1, 3, 4))[0]
    assert differs.nonzero().flatten().tolist() == list(range(8, 12)), "four frames a latent"


@torch.no_grad()
def test_wavenet_sees_its_receptive_field_and_no_future() -> None:
    torch.manual_seed(1)
    net = WaveNet(classes=4, width=8, layers=3, cycles=2).double()
    samples = torch.randn(1, 4, 40, dtype=torch.float64)
    changed = samples.clone()
    changed[..., 20] += 1
    differs = (net(samples) != net(changed)).any(dim=1)[0]
    seen = 1 + 1 + 2 * (2**3 - 1)  # itself, the first convolution, and every dilation once
    assert differs.nonzero().flatten().tolist() == list(range(20, 20 + seen))
