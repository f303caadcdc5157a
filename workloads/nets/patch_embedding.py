"""The patch embedding of Qwen2-VL (Wang et al. 2024, arXiv 2409.12191)."""

import torch
from torch import nn


class PatchEmbedding(nn.Module):
    """Maps the N patches (N, channels, frames, side, side) of all images to tokens (N, width)."""

    def __init__(
        self, width: int = 1280, channels: int = 3, frames: int = 2, side: int = 14
    ) -> None:
        super().__init__()
        kernel = (frames, side, side)
        self.tokens = nn.Conv3d(channels, width, kernel, stride=kernel, bias=False)

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        tokens: torch.Tensor = self.tokens(patches).flatten(1)
        return tokens
