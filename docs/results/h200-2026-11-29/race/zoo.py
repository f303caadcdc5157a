"""Models that nothing was tuned on."""

from itertools import pairwise

import torch
from torch import nn


class Audio(nn.Module):
    """A classifier of sounds: strided convolutions over samples."""

    def __init__(self) -> None:
        super().__init__()
        widths = [1, 32, 64, 128, 256]
        self.body = nn.Sequential(
            *[
                nn.Sequential(nn.Conv1d(a, b, 9, stride=4, padding=4), nn.BatchNorm1d(b), nn.GELU())
                for a, b in pairwise(widths)
            ]
        )
        self.head = nn.Linear(256, 35)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(samples).mean(-1))


class Generator(nn.Module):
    """A generator of pictures from noise, as in DCGAN."""

    def __init__(self) -> None:
        super().__init__()
        widths = [512, 256, 128, 64]
        self.start = nn.ConvTranspose2d(100, 512, 4, bias=False)
        self.body = nn.Sequential(
            *[
                nn.Sequential(
                    nn.BatchNorm2d(a), nn.ReLU(), nn.ConvTranspose2d(a, b, 4, 2, 1, bias=False)
                )
                for a, b in pairwise([*widths, 3])
            ]
        )

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.body(self.start(noise)))


class Upscaler(nn.Module):
    """Twice the size of a photo: residual blocks and a pixel shuffle."""

    def __init__(self, width: int = 64, blocks: int = 8) -> None:
        super().__init__()
        self.start = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(width, width, 3, padding=1),
            )
            for _ in range(blocks)
        )
        self.end = nn.Sequential(nn.Conv2d(width, 12, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, photo: torch.Tensor) -> torch.Tensor:
        x = self.start(photo)
        for block in self.blocks:
            x = x + block(x)
        return self.end(x)


class Video(nn.Module):
    """A classifier of short clips: convolutions over time and space."""

    def __init__(self) -> None:
        super().__init__()
        widths = [3, 32, 64, 128]
        self.body = nn.Sequential(
            *[
                nn.Sequential(
                    nn.Conv3d(a, b, 3, stride=(1, 2, 2), padding=1, bias=False),
                    nn.BatchNorm3d(b),
                    nn.ReLU(),
                )
                for a, b in pairwise(widths)
            ]
        )
        self.head = nn.Linear(128, 101)

    def forward(self, clips: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(clips).mean((2, 3, 4)))


class Keypoints(nn.Module):
    """Heat maps of joints: down to an eighth, separable convolutions there, and up again."""

    def __init__(self, joints: int = 17) -> None:
        super().__init__()
        widths = [3, 32, 64, 128]
        self.down = nn.Sequential(
            *[
                nn.Sequential(nn.Conv2d(a, b, 3, 2, 1, bias=False), nn.BatchNorm2d(b), nn.SiLU())
                for a, b in pairwise(widths)
            ]
        )
        self.middle = nn.Sequential(
            *[
                nn.Sequential(
                    nn.Conv2d(128, 128, 5, padding=2, groups=128, bias=False),
                    nn.Conv2d(128, 128, 1, bias=False),
                    nn.BatchNorm2d(128),
                    nn.SiLU(),
                )
                for _ in range(4)
            ]
        )
        self.up = nn.Sequential(
            *[
                nn.Sequential(
                    nn.ConvTranspose2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.SiLU()
                )
                for a, b in pairwise(widths[:0:-1])
            ],
            nn.Conv2d(32, joints, 1),
        )

    def forward(self, photos: torch.Tensor) -> torch.Tensor:
        return self.up(self.middle(self.down(photos)))
