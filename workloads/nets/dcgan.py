"""DCGAN's generator (Radford et al. 2015, arXiv 1511.06434), as in PyTorch's tutorial."""

import torch
from torch import nn


class Generator(nn.Sequential):
    """Maps noise (N, noise, 1, 1) to images (N, 3, 64, 64) with values from -1 to 1."""

    def __init__(self, noise: int = 100, width: int = 128) -> None:
        super().__init__(
            *_up(noise, 8 * width, stride=1, padding=0),
            *_up(8 * width, 4 * width),
            *_up(4 * width, 2 * width),
            *_up(2 * width, width),
            nn.ConvTranspose2d(width, 3, 4, 2, 1),
            nn.Tanh(),
        )
        self.apply(_draw)


def _up(inputs: int, outputs: int, *, stride: int = 2, padding: int = 1) -> list[nn.Module]:
    return [
        nn.ConvTranspose2d(inputs, outputs, 4, stride, padding, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    ]


@torch.no_grad()
def _draw(module: nn.Module) -> None:
    """Draw weights with a standard deviation of 0.02, as in the paper."""
    if isinstance(module, nn.ConvTranspose2d):
        module.weight.normal_(std=0.02)
