"""Models that fail, each in its own way, and what a user is to try then."""

from typing import Any

NETS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3)
    def forward(self, x):
        return self.conv(x)

class Sized(nn.Module):
    def __init__(self, width, depth):
        super().__init__()

class TakesDict(Net):
    def forward(self, batch):
        scale = 2.0
        return self.conv(batch["image"]) * batch["weight"] * scale

class TakesTwo(Net):
    def forward(self, image, mask, scale=1.0):
        return self.conv(image * mask) * scale

class Ids(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 8)
    def forward(self, input_ids):
        return self.embed(input_ids)

def helper(real):
    return real * 2

class Detached(Net):
    def forward(self, x):
        return self.conv(x).detach()

class InPlace(Net):
    def forward(self, x):
        y = self.conv(x).exp()
        return y.add_(1) * y

class Integers(Net):
    def forward(self, x):
        return self.conv(x).argmax(1)

class Weightless(nn.Module):
    def forward(self, x):
        return x * 2

class Lit(Net):
    forward = nn.Module.forward
    def training_step(self, batch, number):
        return self.conv(batch).mean()

class Norm(nn.Sequential):
    def __init__(self):
        super().__init__(nn.BatchNorm2d(3))

class Head(Net):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(100, 2)
    def forward(self, x):
        return self.head(self.conv(x).flatten(1))

class Joins(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 4, 3, 2, 1), nn.ConvTranspose2d(4, 3, 2, 2)
    def forward(self, x):
        return torch.cat([x, self.up(self.down(x))], 1)

class Deep(Net):
    def __init__(self):
        super().__init__()
        self.second = nn.Conv2d(9, 4, 3)
    def forward(self, x):
        return self.second(self.conv(x))

class Speaks(Net):
    def forward(self, x):
        raise ValueError("expected the size, shape and channels of a module out of memory")
"""
SIZES = "[batch, channels, height, width]"
IMAGES = "2x3x16x16"

FAILURES: list[tuple[str, str, dict[str, Any], str]] = [
    ("Sized", IMAGES, {}, "--argument width=... --argument depth=..."),
    ("Sized", IMAGES, {"width": 3}, "--argument depth=..."),
    ("Net", IMAGES, {"widht": 3}, "--argument width=... (found widht)"),
    ("Net", IMAGES, {"width": "many"}, ""),
    (
        "helper",
        IMAGES,
        {},
        "--argument real=...; to time it as a step, annotate `real: torch.Tensor`",
    ),
    (
        "TakesDict",
        IMAGES,
        {},
        f"--inputs '[{{image: {{shape: {SIZES}}}}}]', with every key that the model takes",
    ),
    (
        "TakesTwo",
        IMAGES,
        {},
        f"--inputs '{{image: {{shape: {SIZES}}}, mask: {{shape: {SIZES}}}}}'",
    ),
    (
        "Ids",
        "2x16",
        {},
        "--inputs '{input_ids: {shape: [batch, length], dtype: int64, below: 50}}'",
    ),
    ("Detached", IMAGES, {}, "--direction inference, or a --loss that depends on the weights"),
    ("InPlace", IMAGES, {}, ""),
    ("Integers", IMAGES, {}, "--loss FILE.py:NAME, or --direction inference"),
    ("Weightless", IMAGES, {}, "--direction inference"),
    (
        "Lit",
        IMAGES,
        {},
        "a function `step(batch: torch.Tensor)` that calls the model's `training_step`",
    ),
    ("Norm", "3x64x64", {}, "other sizes with --input: BatchNorm2d was called with 3x64x64"),
    ("Net", "2x4x16x16", {}, "other sizes with --input: Conv2d was called with 2x4x16x16"),
    ("Head", IMAGES, {}, "other sizes with --input: Linear was called with 2x784"),
    (
        "Joins",
        "2x3x15x15",
        {},
        "multiples of 32 with --input: tensors that are combined differ in size",
    ),
    ("Deep", IMAGES, {}, ""),
    ("Speaks", IMAGES, {}, ""),
]
