"""A small network for segmentation: each pixel of a photo is one of four things."""

import torch
from torch import nn


class Segmenter(nn.Module):
    """Halves the picture, looks at it four times, and says what each pixel is."""

    def __init__(self, width: int = 16, classes: int = 4) -> None:
        super().__init__()
        self.start = _layer(3, width)
        self.down = _layer(width, 2 * width, stride=2)
        self.middle = nn.ModuleList(_layer(2 * width, 2 * width) for _ in range(4))
        self.up = nn.ConvTranspose2d(2 * width, classes, 2, stride=2)

    def forward(self, photo: torch.Tensor) -> torch.Tensor:
        found = self.down(self.start(photo))
        for layer in self.middle:
            found = found + layer(found)
        scores: torch.Tensor = self.up(found)
        return scores


def _layer(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())
