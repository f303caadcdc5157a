"""WaveNet (van den Oord et al. 2016, arXiv 1609.03499). The paper does not give the widths."""

import torch
from torch import nn
from torch.nn import functional


class Layer(nn.Module):
    """A gated causal convolution. Its outputs (N, width, L) go to the next layer and the scores."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.dilation = dilation
        self.filter_and_gate = nn.Conv1d(width, 2 * width, 2, dilation=dilation)
        self.out = nn.Conv1d(width, width, 1)

    def forward(self, samples: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        past = functional.pad(samples, (self.dilation, 0))
        filtered, gate = self.filter_and_gate(past).chunk(2, dim=1)
        skip = self.out(filtered.tanh() * gate.sigmoid())
        return samples + skip, skip


class WaveNet(nn.Module):
    """Maps one-hot recordings (N, classes, L) to scores (N, classes, L) of the next samples.

    Each cycle has `layers` layers with dilations of 1, 2, 4 and so on.
    """

    def __init__(
        self, classes: int = 256, width: int = 64, layers: int = 10, cycles: int = 3
    ) -> None:
        super().__init__()
        self.first = nn.Conv1d(classes, width, 2)
        self.layers = nn.ModuleList(
            Layer(width, 2**layer) for _ in range(cycles) for layer in range(layers)
        )
        self.score = nn.Sequential(
            nn.ReLU(), nn.Conv1d(width, classes, 1), nn.ReLU(), nn.Conv1d(classes, classes, 1)
        )

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        samples = self.first(functional.pad(samples, (1, 0)))
        skips = []
        for layer in self.layers:
            samples, skip = layer(samples)
            skips.append(skip)
        scores: torch.Tensor = self.score(torch.stack(skips).sum(0))
        return scores
