"""U-Net: Ronneberger, Fischer & Brox 2015, arXiv 1505.04597."""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn

from cudnn_sweep.workloads.errors import WorkloadError

Layer = Callable[..., nn.Module]

LAYERS: dict[int, tuple[Layer, Layer, Layer]] = {
    2: (nn.Conv2d, nn.ConvTranspose2d, nn.MaxPool2d),
    3: (nn.Conv3d, nn.ConvTranspose3d, nn.MaxPool3d),
}


class UNet(nn.Module):
    """Maps images (N, in_channels, H, W), or volumes, to scores (N, classes, H, W).

    H and W must be at least 16. The scores have the size of the images, rounded down to a multiple
    of 16, because convolutions are padded. The paper's network does not pad them.
    """

    def __init__(
        self, dims: int = 2, in_channels: int = 1, classes: int = 2, width: int = 64
    ) -> None:
        super().__init__()
        if dims not in LAYERS:
            raise WorkloadError(f"dims of a UNet: found {dims}, allowed: 2 or 3")
        conv, up, pool = LAYERS[dims]
        widths = [width * 2**level for level in range(5)]
        steps = list(pairwise(widths))
        self.down = nn.ModuleList(_twice(conv, a, b) for a, b in pairwise([in_channels, *widths]))
        self.pool = pool(2)
        self.up = nn.ModuleList(up(b, a, 2, stride=2) for a, b in reversed(steps))
        self.merge = nn.ModuleList(_twice(conv, b, a) for a, b in reversed(steps))
        self.score = conv(width, classes, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        *blocks, bottom = self.down
        skipped = []
        for block in blocks:
            skipped.append(block(images))
            images = self.pool(skipped[-1])
        images = bottom(images)
        for up, merge in zip(self.up, self.merge, strict=True):
            images = up(images)
            cropped = skipped.pop()[(..., *map(slice, images.shape[2:]))]
            images = merge(torch.cat([cropped, images], dim=1))
        scores: torch.Tensor = self.score(images)
        return scores


def _twice(conv: Layer, inputs: int, outputs: int) -> nn.Sequential:
    """Return two convolutions with ReLU, with weights drawn as in the paper."""
    convs = [conv(inputs, outputs, 3, padding=1), conv(outputs, outputs, 3, padding=1)]
    for layer in convs:
        nn.init.kaiming_normal_(layer.get_parameter("weight"), nonlinearity="relu")
    return nn.Sequential(convs[0], nn.ReLU(), convs[1], nn.ReLU())
