"""ConvProblem: the sizes of one convolution. CSV files list the bundled problems."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from cudnn_sweep.workloads.errors import WorkloadError

PROBLEMS = files("cudnn_sweep.workloads").joinpath("problems")

YES_OR_NO = {"yes": True, "no": False}

Shape = tuple[int, ...]

MOST_SIZES = 5  # batch, channels, depth, height, width
SPATIAL = ("kernel_size", "stride", "padding", "dilation", "output_padding")  # for _output_size


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvProblem:
    """One convolution. `input_shape` has the batch, the channels and the spatial sizes."""

    name: str
    input_shape: Shape
    out_channels: int
    kernel_size: Shape
    stride: Shape
    padding: Shape
    dilation: Shape
    groups: int
    bias: bool
    transposed: bool = False
    output_padding: Shape = ()
    """Sizes added to one side of a transposed convolution's output, one per dimension."""
    occurrences: int = 1
    """How often the convolution occurs in its network."""

    def __post_init__(self) -> None:
        spatial = len(self.input_shape) - 2
        for name in SPATIAL:  # a single size applies to each dimension
            sizes = getattr(self, name) or (0,)
            object.__setattr__(self, name, sizes * spatial if len(sizes) == 1 else sizes)
            if len(sizes) not in (1, spatial):
                raise WorkloadError(
                    f"problem {self.name}: {name} needs {spatial} values, one per dimension; "
                    f"found {sizes}"
                )
        if any(self.output_padding) and not self.transposed:
            raise WorkloadError(f"problem {self.name}: output_padding requires `transposed`")
        if self.input_shape[1] % self.groups or self.out_channels % self.groups:
            raise WorkloadError(
                f"problem {self.name}: {self.groups} groups do not divide the channels"
            )

    @property
    def weight_shape(self) -> Shape:
        first, second = self.out_channels, self.input_shape[1]
        if self.transposed:
            first, second = second, first
        return (first, second // self.groups, *self.kernel_size)

    def output_shape(self, shape: Shape) -> Shape:
        sizes = zip(shape[2:], *(getattr(self, name) for name in SPATIAL), strict=True)
        return (shape[0], self.out_channels, *(self._output_size(*size) for size in sizes))

    def _output_size(
        self, size: int, kernel: int, stride: int, padding: int, dilation: int, added: int
    ) -> int:
        reach = dilation * (kernel - 1)
        if self.transposed:
            return (size - 1) * stride - 2 * padding + reach + added + 1
        return (size + 2 * padding - reach - 1) // stride + 1


@cache
def load_problems() -> dict[str, ConvProblem]:
    """Return all bundled problems. The keys are `file/name`."""
    problems = {}
    for table in sorted(PROBLEMS.iterdir(), key=lambda file: file.name):
        lines = [line for line in table.read_text().splitlines() if not line.startswith("#")]
        for row in csv.DictReader(lines):
            name = f"{table.name.removesuffix('.csv')}/{row['name']}"
            problems[name] = problem_of(name, row)
    return problems


def problem_of(name: str, row: Mapping[str, str]) -> ConvProblem:
    return ConvProblem(
        name=name,
        input_shape=parse_sizes(row["input"]),
        out_channels=int(row["out_channels"]),
        kernel_size=parse_sizes(row["kernel"]),
        stride=parse_sizes(row["stride"]),
        padding=parse_sizes(row["padding"]),
        dilation=parse_sizes(row["dilation"]),
        groups=int(row["groups"]),
        bias=YES_OR_NO[row["bias"]],
        transposed=YES_OR_NO[row.get("transposed") or "no"],
        output_padding=parse_sizes(row.get("output_padding") or "0"),
        occurrences=int(row.get("occurrences") or 1),
    )


def parse_sizes(text: str) -> Shape:
    sizes = text.split("x")
    if not all(size.isdecimal() for size in sizes):
        raise ValueError(f"expected sizes such as 8x3x224x224, found {text!r}")
    return tuple(int(size) for size in sizes)


def none_empty(sizes: Shape) -> Shape:
    if 0 in sizes:
        raise ValueError(f"expected sizes of 1 or more, found {sizes_text(sizes)!r}")
    return sizes


def space_names(shape: Shape) -> tuple[str, ...]:
    """Return the names of an input's spatial sizes, such as `height` and `width`."""
    return ("depth", "height", "width")[-(len(shape) - 2) :] if len(shape) > 3 else ("length",)


def named_sizes(shape: Shape) -> dict[str, int]:
    """Return an input's sizes by name. An input with only two sizes has no channels."""
    if len(shape) > MOST_SIZES:
        raise WorkloadError(
            f"the input {sizes_text(shape)} has {len(shape)} sizes; allowed are at most "
            f"{MOST_SIZES}: batch, channels, depth, height, width"
        )
    channels = ("channels",) if len(shape) > 2 else ()
    return dict(zip(("batch", *channels, *space_names(shape)), shape, strict=True))


def sizes_text(sizes: Shape) -> str:
    return "x".join(map(str, sizes))
