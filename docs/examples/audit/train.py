"""A small training script: `python train.py 60` takes 60 steps on images of many sizes."""

import random
import sys

import torch
import training_kit
from torch import nn


class Net(nn.Module):
    """Three convolutions, and a number for each image."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers(images).mean((1, 2, 3))
        return found


def main(steps: int) -> None:
    training_kit.prepare(seed=0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = Net().to(device)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(steps):
        height, width = (
            32 * random.randint(1, 4) for _ in range(2)
        )  # each batch has a size of its own
        images = torch.randn(8, 3, height, width, device=device)
        loss = net(images).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    print(f"last loss {loss.item():.4f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
