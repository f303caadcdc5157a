"""A step of one's own. run.sh makes stack.py of it, and edits the two numbers there for a fault."""

import torch

from cudnn_sweep.workloads.workload import Context, TimedStep, workload

CONVOLUTIONS = 20
HELD_MIB = 0


class Stack(torch.nn.Module):
    """The same convolution again and again, so that time is the device's."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(64, 64, 3, padding=1)
        self.held = torch.empty(HELD_MIB << 20, dtype=torch.uint8, device=device)

    @torch.no_grad()
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        for _ in range(CONVOLUTIONS):
            found = self.conv(images)
        return found


@workload(directions=("forward",), varies=("batch", "space"), input_shape=(32, 64, 56, 56))
def stack(context: Context) -> TimedStep:
    return TimedStep(prepare=context.random, run=context.place(Stack(context.device)))
