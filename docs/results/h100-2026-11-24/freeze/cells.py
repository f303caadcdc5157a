"""Convolutions in which a search gains much, as modules, and a small 3D U-Net."""

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool3d


class Scaled(nn.Module):
    """A convolution whose input needs a gradient."""

    def __init__(self, conv: nn.Module, channels: int, dims: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1, channels, *[1] * dims))
        self.conv = conv

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x * self.scale)


def c3d() -> nn.Module:
    return nn.Conv3d(3, 64, 3, padding=1, bias=False)


def r3d18_stem() -> nn.Module:
    return nn.Conv3d(3, 64, (3, 7, 7), stride=(1, 2, 2), padding=(1, 3, 3), bias=False)


def speech() -> nn.Module:
    return nn.Conv2d(1, 32, (20, 5), stride=2, bias=False)


def resnet_conv4() -> nn.Module:
    return Scaled(nn.Conv2d(256, 256, 3, padding=1, bias=False), 256, 2)


def resnext_group() -> nn.Module:
    return Scaled(nn.Conv2d(256, 256, 3, padding=1, groups=32, bias=False), 256, 2)


def vgg256() -> nn.Module:
    return Scaled(nn.Conv2d(256, 256, 3, padding=1, bias=False), 256, 2)


def pointwise() -> nn.Module:
    return Scaled(nn.Conv2d(64, 256, 1, bias=False), 64, 2)


def resnet_stem() -> nn.Module:
    return nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)


def _behind_1x1(channels: int, conv: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(channels, channels, 1), conv)


def group32() -> nn.Module:
    return _behind_1x1(128, nn.Conv2d(128, 128, 3, padding=1, groups=32, bias=False))


def conv5() -> nn.Module:
    return _behind_1x1(192, nn.Conv2d(192, 32, 5, padding=2, bias=False))


class UNet3d(nn.Module):
    """The U-Net of https://arxiv.org/abs/1606.06650, with 16 filters and two halvings."""

    def __init__(self, w: int = 16) -> None:
        super().__init__()
        self.down1, self.down2 = _block(1, w), _block(w, 2 * w)
        self.middle = _block(2 * w, 4 * w)
        self.up2, self.up1 = _block(6 * w, 2 * w), _block(3 * w, w)
        self.double2 = nn.ConvTranspose3d(4 * w, 4 * w, 2, 2)
        self.double1 = nn.ConvTranspose3d(2 * w, 2 * w, 2, 2)
        self.out = nn.Conv3d(w, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.down1(x)
        second = self.down2(max_pool3d(first, 2))
        third = self.middle(max_pool3d(second, 2))
        second = self.up2(torch.cat([second, self.double2(third)], 1))
        return self.out(self.up1(torch.cat([first, self.double1(second)], 1)))


def _block(inside: int, outside: int) -> nn.Module:
    layers: list[nn.Module] = []
    for channels in (inside, outside):
        conv = nn.Conv3d(channels, outside, 3, padding=1)
        layers += [conv, nn.InstanceNorm3d(outside), nn.ReLU()]
    return nn.Sequential(*layers)
