"""Darknet-53, the backbone of YOLOv3: Redmon & Farhadi 2018, arXiv 1804.02767."""

import torch
from torch import nn

BLOCKS = (1, 2, 8, 8, 4)  # residual blocks at strides 2, 4, 8, 16 and 32


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(_conv(width, width // 2, 1), _conv(width // 2, width, 3))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        changed: torch.Tensor = self.layers(images)
        return images + changed


class Darknet53(nn.Module):
    """Maps images (N, 3, H, W) to features at strides 8, 16 and 32."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.stem = _conv(3, width, 3)
        self.stages = nn.ModuleList(
            nn.Sequential(
                _conv(width * 2**stage, width * 2 ** (stage + 1), 3, stride=2),
                *(Residual(width * 2 ** (stage + 1)) for _ in range(blocks)),
            )
            for stage, blocks in enumerate(BLOCKS)
        )

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, ...]:
        images = self.stem(images)
        features = []
        for stage in self.stages:
            images = stage(images)
            features.append(images)
        return tuple(features[-3:])


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.LeakyReLU(0.1),
    )
