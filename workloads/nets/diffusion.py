"""A diffusion model's U-Net, sized for 32 x 32 images: Ho, Jain & Abbeel 2020, arXiv 2006.11239."""

from math import log

import torch
from torch import nn
from torch.nn import functional

GROUPS = 32  # of every group norm


class Residual(nn.Module):
    """Maps (N, inputs, H, W) to (N, outputs, H, W). The time embedding is added in the middle."""

    def __init__(self, inputs: int, outputs: int, time: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.Sequential(
            _norm(inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1)
        )
        self.time = nn.Sequential(nn.SiLU(), nn.Linear(time, outputs))
        self.second = nn.Sequential(
            _norm(outputs),
            nn.SiLU(),
            nn.Dropout(dropout),
            nn.Conv2d(outputs, outputs, 3, padding=1),
        )
        self.skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, images: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        inner = self.first(images) + self.time(time)[:, :, None, None]
        mixed: torch.Tensor = self.skip(images) + self.second(inner)
        return mixed


class Attention(nn.Module):
    """Self-attention over all positions, with one head."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = _norm(width)
        self.looks = nn.Conv2d(width, 3 * width, 1)  # query, key and value
        self.out = nn.Conv2d(width, width, 1)

    def forward(self, images: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        looks = self.looks(self.norm(images)).flatten(2).transpose(1, 2)
        seen = functional.scaled_dot_product_attention(*looks.chunk(3, dim=2))
        mixed: torch.Tensor = images + self.out(seen.transpose(1, 2).reshape(images.shape))
        return mixed


class DiffusionUNet(nn.Module):
    """Maps noisy images (N, channels, H, W) and their time steps (N) to the noise in the images.

    H and W must be multiples of 2^(len(levels) - 1). `attention` is the index of the level that
    has attention blocks. The middle also has one.
    """

    by_strides = True
    """Whether some convolution is channels_last only because of the strides of its weight."""

    def __init__(
        self,
        channels: int = 3,
        width: int = 128,
        levels: tuple[int, ...] = (1, 2, 2, 2),
        attention: int = 1,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        time = 4 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(channels, width, 3, padding=1)
        widths = [width * factor for factor in levels]
        skipped = [width]

        def stage(inputs: int, outputs: int, level: int) -> nn.ModuleList:
            parts: list[nn.Module] = [Residual(inputs, outputs, time, dropout)]
            return nn.ModuleList(parts + [Attention(outputs)] * (level == attention))

        self.down = nn.ModuleList()
        for level, outputs in enumerate(widths):
            for _ in range(2):
                self.down.append(stage(skipped[-1], outputs, level))
                skipped.append(outputs)
            if level + 1 < len(widths):
                self.down.append(nn.Conv2d(outputs, outputs, 3, stride=2, padding=1))
                skipped.append(outputs)
        inner = widths[-1]
        self.middle = nn.ModuleList(
            [
                Residual(inner, inner, time, dropout),
                Attention(inner),
                Residual(inner, inner, time, dropout),
            ]
        )
        self.up = nn.ModuleList()
        for level, outputs in reversed(list(enumerate(widths))):
            for _ in range(3):
                self.up.append(stage(inner + skipped.pop(), outputs, level))
                inner = outputs
            if level:
                self.up.append(nn.Conv2d(inner, inner, 3, padding=1))
        self.last = nn.Sequential(_norm(inner), nn.SiLU(), nn.Conv2d(inner, channels, 3, padding=1))

    def forward(self, images: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        time = self.time(_sines(times, self.width).to(self.first.weight.dtype))
        images = self.first(images)
        skipped = [images]
        for stage in self.down:
            images = (
                stage(images) if isinstance(stage, nn.Conv2d) else _through(stage, images, time)
            )
            skipped.append(images)
        images = _through(self.middle, images, time)
        for stage in self.up:
            if isinstance(stage, nn.Conv2d):
                images = stage(functional.interpolate(images, scale_factor=2.0))
            else:
                images = _through(stage, torch.cat([images, skipped.pop()], dim=1), time)
        noise: torch.Tensor = self.last(images)
        return noise


def _through(parts: nn.Module, images: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
    for part in parts.children():
        images = part(images, time)
    return images


def _sines(times: torch.Tensor, width: int) -> torch.Tensor:
    """Embed `times` as sines and cosines (N, width), with wavelengths from 2π to 20,000π steps."""
    half = width // 2
    steps = torch.arange(half, device=times.device, dtype=torch.float32)
    angles = times[:, None].float() * torch.exp(steps * (-log(10_000) / (half - 1)))
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _norm(width: int) -> nn.GroupNorm:
    return nn.GroupNorm(min(GROUPS, width), width, eps=1e-6)
