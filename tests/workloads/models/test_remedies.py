"""What a user is to try after a model has failed in this process."""

from pathlib import Path
from typing import Any

import pytest

from cudnn_sweep.workloads.errors import TRY
from cudnn_sweep.workloads.models.inputs import what_to_try
from cudnn_sweep.workloads.problem import parse_sizes
from tests.workloads.made_up_failures import FAILURES, NETS
from tests.workloads.made_up_models import build, context


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The line that raised an error is read from there."""
    file = tmp_path_factory.mktemp("nets") / "failing_nets.py"
    file.write_text(NETS)
    return file


@pytest.mark.parametrize(("name", "sizes", "model", "wanted"), FAILURES)
def test_what_to_try_follows_from_the_frames_of_the_error(
    file: Path, name: str, sizes: str, model: dict[str, Any], wanted: str
) -> None:
    shape = parse_sizes(sizes)
    with pytest.raises(Exception) as failed:  # each its own
        step = build(f"{file}:{name}", context(arguments=model))
        step.run(step.prepare(shape))
    assert what_to_try(failed.value, shape) == (TRY + wanted if wanted else "")


MORE = """
import torch
from torch import nn

class Added(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 4, 3, 2, 1), nn.ConvTranspose2d(4, 3, 2, 2)
    def forward(self, x):
        return x + self.up(self.down(x))

class Stacked(Added):
    def forward(self, x):
        return torch.stack([x, self.up(self.down(x))])

class Never(Added):
    def forward(self, x):
        return torch.cat([x, x[:, :, 1:]], 1)

class Multiplied(Added):
    def forward(self, x):
        return x.flatten(1).mm(x.flatten(1))

class Wide(nn.Module):
    def __init__(self, width, *rest, depth=2, **more):
        super().__init__()

def pair(left, right):
    return nn.Conv2d(3, 4, 3)

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 1), nn.Linear(5, 2)
    def forward(self, x):
        return self.second(self.first(x))
"""
DIFFER = "with --input: tensors that are combined differ in size"


@pytest.mark.parametrize(
    ("name", "sizes", "model", "wanted"),
    [
        ("Added", "2x3x15x15", {}, f"multiples of 32 {DIFFER}"),
        ("Added", "2x3x15x32", {}, f"multiples of 32 {DIFFER}"),
        ("Added", "2x3x32x15", {}, f"multiples of 32 {DIFFER}"),
        ("Stacked", "2x3x15x64", {}, f"multiples of 32 {DIFFER}"),
        ("Never", "2x3x32x64", {}, f"other sizes {DIFFER}"),
        ("Never", "2x3x33x64", {}, f"multiples of 32 {DIFFER}"),
        ("Multiplied", "2x3x32x64", {}, ""),
        ("Wide", "2x3x8x8", {}, "--argument width=..."),
        ("pair", "2x3x8x8", {}, "--argument left=... --argument right=..."),
        (
            "pair",
            "2x3x8x8",
            {"left": 1},
            "--argument right=...; to time it as a step, annotate `right: torch.Tensor`",
        ),
        ("pair", "2x3x8x8", {"zzz": 1}, ""),
        ("Two", "2x3x4x6", {}, "other sizes with --input: Linear was called with 2x4x4x6"),
        ("Two", "2x4x4x5", {}, "other sizes with --input: Conv2d was called with 2x4x4x5"),
    ],
)
def test_what_to_try_is_told_by_the_sizes_and_the_names(
    tmp_path: Path, name: str, sizes: str, model: dict[str, Any], wanted: str
) -> None:
    (tmp_path / "more_nets.py").write_text(MORE)
    test_what_to_try_follows_from_the_frames_of_the_error(
        tmp_path / "more_nets.py", name, sizes, model, wanted
    )
