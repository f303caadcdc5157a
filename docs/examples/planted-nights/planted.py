"""A step of one's own, and the faults that run.sh plants in it: PLANTED is `slow`, `memory` or nothing."""

import os

import torch

from cudnn_sweep.workloads.workload import Setting, TimedStep, workload

PLANTED = os.environ.get("PLANTED", "")
CONVOLUTIONS = 22 if PLANTED == "slow" else 20  # 10% more of the same work
HELD_BYTES = 80 << 20 if PLANTED == "memory" else 0


class Stack(torch.nn.Module):
    """The same convolution again and again, so that time is the device's."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(64, 64, 3, padding=1)
        self.held = torch.empty(HELD_BYTES, dtype=torch.uint8, device=device)

    @torch.no_grad()
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        for _ in range(CONVOLUTIONS):
            found = self.conv(images)
        return found


@workload(directions=("forward",), varies=("batch", "space"), input_shape=(32, 64, 56, 56))
def stack(setting: Setting) -> TimedStep:
    return TimedStep(prepare=setting.random, run=setting.place(Stack(setting.device)))
