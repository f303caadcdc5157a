"""What a failure of a model suggests: from where it was raised."""

from pathlib import Path
from typing import Any

import pytest

from cudnn_sweep.orchestrator.planning.plan import first_calls
from cudnn_sweep.orchestrator.process.client import ForkServer, call_models
from cudnn_sweep.orchestrator.steps.one_step import read_inputs
from cudnn_sweep.workloads.errors import TRY
from tests.makers import MakePlan

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


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("nets") / "nets.py"
    file.write_text(NETS)
    return file


@pytest.mark.parametrize(
    ("name", "sizes", "model", "wanted"),
    [
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
            f"--inputs '[{{image: {{shape: {SIZES}}}}}]', with every key that it takes",
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
            "a function that calls its `training_step`, annotated as `step(batch: torch.Tensor)`",
        ),
        ("Norm", "3x64x64", {}, "other sizes with --input: BatchNorm2d was given 3x64x64"),
        ("Net", "2x4x16x16", {}, "other sizes with --input: Conv2d was given 2x4x16x16"),
        ("Head", IMAGES, {}, "other sizes with --input: Linear was given 2x784"),
        (
            "Joins",
            "2x3x15x15",
            {},
            "multiples of 32 with --input: tensors that are joined differ in size",
        ),
        ("Deep", IMAGES, {}, ""),
        ("Speaks", IMAGES, {}, ""),
    ],
)
def test_what_to_try_follows_from_where_a_model_failed(
    server: ForkServer,
    plan_of: MakePlan,
    file: Path,
    name: str,
    sizes: str,
    model: dict[str, Any],
    wanted: str,
) -> None:
    plan = plan_of(f"{file}:{name}", input=sizes, model={"arguments": model})
    with pytest.raises(Exception, match=f"{name} at input {sizes}: ") as failed:
        list(call_models(server, first_calls(plan)))
    _, _, found = str(failed.value).partition(TRY)
    assert found == wanted
    if found.startswith("--inputs"):
        assert read_inputs(found.split("'")[1])
