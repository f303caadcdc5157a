"""A video VAE's decoder like CogVideoX's (Yang et al. 2024, arXiv 2408.06072, appendix).

It has the blocks and widths of CogVideoX, but plain group norms.
"""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

GROUPS = 32  # of every group norm


class CausalConv3d(nn.Module):
    """Maps (N, inputs, T, H, W) to (N, outputs, T, H, W) by a causal 3 x 3 x 3 convolution."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv3d(inputs, outputs, 3, padding=(0, 1, 1))

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        first = frames[:, :, :1]
        convolved: torch.Tensor = self.conv(torch.cat([first, first, frames], dim=2))
        return convolved


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            *_before(inputs),
            CausalConv3d(inputs, outputs),
            *_before(outputs),
            CausalConv3d(outputs, outputs),
        )
        self.skip = nn.Identity() if inputs == outputs else nn.Conv3d(inputs, outputs, 1)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        mixed: torch.Tensor = self.skip(frames) + self.inner(frames)
        return mixed


class Larger(nn.Module):
    """Doubles height and width, repeats each frame `times` times, and then convolves each frame."""

    def __init__(self, width: int, times: int) -> None:
        super().__init__()
        self.times = times
        self.conv = nn.Conv3d(width, width, (1, 3, 3), padding=(0, 1, 1))

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        larger = functional.interpolate(frames, scale_factor=(float(self.times), 2.0, 2.0))
        convolved: torch.Tensor = self.conv(larger)
        return convolved


class VideoDecoder(nn.Sequential):
    """Maps latents (N, latents, T, H, W) to frames (N, 3, 4 T, 8 H, 8 W)."""

    def __init__(self, latents: int = 16, width: int = 128, depth: int = 4) -> None:
        widths = [width * factor for factor in (4, 4, 2, 2, 1)]
        stages: list[nn.Module] = [
            CausalConv3d(latents, widths[0]),
            *_blocks(widths[0], widths[0], 2),
        ]
        for level, (inputs, outputs) in enumerate(pairwise(widths)):
            stages += _blocks(inputs, outputs, depth)
            if level < 3:  # the last level already has the size of the frames
                stages.append(Larger(outputs, times=2 if level < 2 else 1))
        super().__init__(*stages, *_before(widths[-1]), CausalConv3d(widths[-1], 3))


def _blocks(inputs: int, outputs: int, depth: int) -> list[nn.Module]:
    return [Residual(inputs if n == 0 else outputs, outputs) for n in range(depth)]


def _before(width: int) -> list[nn.Module]:
    return [nn.GroupNorm(min(GROUPS, width), width, eps=1e-6), nn.SiLU()]
