"""A training step as people write it: docs/your-model.md explains it."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from cudnn_sweep.workloads.workload import Context, TimedStep, workload

Batch = dict[str, torch.Tensor]


class Photos(Dataset[Batch]):
    """Stands for a data set of yours: a photo, and what each of its pixels is."""

    def __init__(self, space: tuple[int, ...]) -> None:
        self.space = space

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Batch:
        photo = torch.randn(3, *self.space)
        return {"pixel_values": photo, "labels": (photo[0] > 0).long()}


class Net(nn.Module):
    """Is called with a dict, and returns its own loss."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 2, 1))

    def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor) -> Batch:
        logits = self.body(pixel_values)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


@workload(directions=("training",), varies=("batch", "space"), input_shape=(8, 3, 64, 64))
def train(context: Context) -> TimedStep:
    """Trains a small network on photos, under autocast where the precision asks for it."""
    net = context.place(Net()).train()
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3)
    scales = context.precision.autocast == "float16"
    scaler = torch.amp.GradScaler(context.device.type, enabled=scales)

    def load(shape: tuple[int, ...]) -> Batch:
        batch = next(iter(DataLoader(Photos(shape[2:]), batch_size=shape[0], num_workers=2)))
        pixels = context.like_inputs(batch["pixel_values"])
        return {"pixel_values": pixels, "labels": batch["labels"].to(context.device)}

    def step(batch: Batch) -> torch.Tensor:
        optimiser.zero_grad()
        loss: torch.Tensor = context.forward(lambda batch: net(**batch)["loss"], batch)
        scaler.scale(loss).backward()
        scaler.unscale_(optimiser)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimiser)
        scaler.update()
        return loss.detach()

    return TimedStep(prepare=load, run=step)
