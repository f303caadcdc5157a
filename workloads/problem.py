"""ConvProblem: the sizes of one convolution, and the files that name them."""

import csv
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from cudnn_sweep.workloads.errors import WorkloadError, unknown

PROBLEMS = files("cudnn_sweep.workloads").joinpath("problems")

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvProblem:
    """One convolution. `input_shape` is batch, channels, then one to three spatial sizes."""

    name: str
    input_shape: Shape
    out_channels: int
    kernel_size: Shape
    stride: Shape
    padding: Shape
    dilation: Shape
    groups: int
    bias: bool

    def __post_init__(self) -> None:
        spatial = len(self.input_shape) - 2
        for what in ("kernel_size", "stride", "padding", "dilation"):
            if len(getattr(self, what)) != spatial:
                raise WorkloadError(
                    f"problem {self.name}: {what} {getattr(self, what)} has not one number "
                    f"for each of {spatial} spatial sizes"
                )
        if self.input_shape[1] % self.groups or self.out_channels % self.groups:
            raise WorkloadError(
                f"problem {self.name}: {self.groups} groups do not divide the channels"
            )

    def with_batch(self, batch: int) -> "ConvProblem":
        return replace(self, input_shape=(batch, *self.input_shape[1:]))


@cache
def load_problems() -> dict[str, ConvProblem]:
    """Every problem of every file, as `file/name`."""
    found = {}
    for table in sorted(PROBLEMS.iterdir(), key=lambda file: file.name):
        lines = [line for line in table.read_text().splitlines() if not line.startswith("#")]
        for row in csv.DictReader(lines):
            name = f"{table.name.removesuffix('.csv')}/{row['name']}"
            found[name] = _problem(name, row)
    return found


def find_problem(name: str) -> ConvProblem:
    if name not in load_problems():
        raise unknown("problem", name, list(load_problems()))
    return load_problems()[name]


def _problem(name: str, row: dict[str, str]) -> ConvProblem:
    return ConvProblem(
        name=name,
        input_shape=_sizes(row["input"]),
        out_channels=int(row["out_channels"]),
        kernel_size=_sizes(row["kernel"]),
        stride=_sizes(row["stride"]),
        padding=_sizes(row["padding"]),
        dilation=_sizes(row["dilation"]),
        groups=int(row["groups"]),
        bias={"yes": True, "no": False}[row["bias"]],
    )


def _sizes(text: str) -> Shape:
    return tuple(int(size) for size in text.split("x"))
