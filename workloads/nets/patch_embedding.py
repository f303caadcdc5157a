"""Turns patches into tokens by a 3D convolution, as Qwen2-VL does: Wang et al. 2024, arXiv 2409.12191."""

import torch
from torch import nn


class PatchEmbedding(nn.Module):
    """Maps patches (N, channels, frames, side, side), each as large as the filter, to tokens (N, width).

    N counts the patches of all images, so it varies with the images' sizes.
    """

    def __init__(
        self, width: int = 1280, channels: int = 3, frames: int = 2, side: int = 14
    ) -> None:
        super().__init__()
        kernel = (frames, side, side)
        self.tokens = nn.Conv3d(channels, width, kernel, stride=kernel, bias=False)

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        tokens: torch.Tensor = self.tokens(patches).flatten(1)
        return tokens
