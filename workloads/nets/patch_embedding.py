"""The patch embedding of Qwen2-VL (Wang et al. 2024, arXiv 2409.12191)."""

import torch
from torch import nn


class PatchEmbedding(nn.Module):
    """Maps patches (N, channels, frames, side, side) to tokens (N, width).

    N is the number of patches of all images.
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
