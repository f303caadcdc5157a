"""Models made up for tests, losses for them, and how a test builds and runs one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from ruamel.yaml import YAML
from torch import nn

from cudnn_sweep.workloads.find_state import make_state
from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.measuring.computed import compute
from cudnn_sweep.workloads.precision import PRECISIONS
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.records.measured import Computed
from cudnn_sweep.workloads.training.choice import ModelChoice
from cudnn_sweep.workloads.workload import Context, TimedStep

IMAGES = (4, 3, 8, 8)


# Relative L2: some units in the last place, which add up through a net's layers.
ERRORS = {"float32": 1e-5, "bfloat16": 0.1, "float16": 0.02}


class Small(nn.Module):
    """With all that may keep a pass from being repeatable: running statistics, dropout, power iteration."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.LeakyReLU(),
            nn.Dropout(0.5),
        )
        self.head = nn.utils.parametrizations.spectral_norm(nn.Conv2d(width, 5, 1))

    def forward(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
        found = self.body(images)
        return {"out": self.head(found), "features": found}


class Plain(nn.Sequential):
    """Learns what it is asked to."""

    def __init__(self) -> None:
        super().__init__(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 5))


class Noisy(nn.Module):
    """Draws without a dropout module."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found = nn.functional.dropout(self.norm(self.conv(images)), 0.5)
        return found + torch.randn_like(found)


class Loud(nn.Module):
    """Its gradients in float16 overflow at the scale that a GradScaler begins with."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = 100 * self.conv(images)
        return found


def small(width: int) -> nn.Module:
    return Small(width)


def no_model() -> str:
    return "a text"


def distance_from_one(output: torch.Tensor) -> torch.Tensor:
    return (output - 1).square().mean()


def each_distance(output: torch.Tensor) -> torch.Tensor:
    return output.square()


def no_loss(output: torch.Tensor) -> None:
    return None


class Integers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Plain()

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor]:
        return (self.net(images).argmax(1),)


class Lone(Integers):
    def forward(self, images: torch.Tensor) -> Any:
        return self.net(images)[:, 0]


made = Plain()


number = 3


@dataclass
class Detected:
    boxes: torch.Tensor
    levels: list[torch.Tensor]


def here(name: str) -> str:
    return f"{__file__}:{name}"


def context(
    direction: str = "training",
    precision: str = "fp32",
    *,
    device: str = "cpu",
    layout: str = "contiguous",
    state: str = "plain",
    **model: Any,
) -> Context:
    return Context(
        device=torch.device(device),
        precision=PRECISIONS[precision],
        layout=layout,
        direction=direction,
        problem=None,
        model=ModelChoice(**model),
        state=make_state(state, {}),
    )


def build(name: str, wanted: Context, *, seed: int = 1) -> TimedStep:
    torch.manual_seed(seed)
    return find_workload(name).step(wanted)


def train(file: Path) -> None:
    """A step of the model whose name and choices are this file."""
    told = file.read_text().replace("HERE", __file__)
    name, model = YAML(typ="safe", pure=True).load(told)
    step = build(name, context(**model))
    step.run(step.prepare(IMAGES))


def computed(name: str, wanted: Context, shape: Shape = IMAGES, seed: int = 1) -> Computed:
    return compute(find_workload(name), wanted, shape, seed, reference=True, flops=0)[0]


def losses(step: TimedStep, steps: int, shape: Shape = IMAGES) -> list[float]:
    inputs = step.prepare(shape)
    return [float(step.run(inputs)) for _ in range(steps)]


def examined(step: TimedStep, shape: Shape = IMAGES) -> dict[str, torch.Tensor]:
    assert step.examine is not None
    torch.manual_seed(2)
    return step.examine(step.prepare(shape))


class Reader(nn.Module):
    """Is called with token ids, a mask and labels, and returns its own loss."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 8)
        self.head = nn.Linear(8, 2)

    def forward(
        self, ids: torch.Tensor, mask: torch.Tensor, labels: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        logits = self.head((self.words(ids) * mask[:, :, None]).mean(1))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class DictReader(Reader):
    def forward(self, batch: dict[str, torch.Tensor]) -> Any:  # type: ignore[override]
        return tuple(super().forward(**batch).values())


def make_text(shape: Shape) -> dict[str, torch.Tensor]:
    return {
        "ids": torch.randint(50, shape),
        "mask": torch.ones(shape, dtype=torch.bool),
        "labels": torch.randint(2, shape[:1]),
    }
