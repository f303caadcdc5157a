"""ConvProblem: the sizes of one convolution, and the files that name them."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from cudnn_sweep.workloads.errors import WorkloadError, unknown

PROBLEMS = files("cudnn_sweep.workloads").joinpath("problems")

YES_OR_NO = {"yes": True, "no": False}

Shape = tuple[int, ...]

MOST_SIZES = 5  # that have names
SPATIAL = ("kernel_size", "stride", "padding", "dilation", "output_padding")


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
    transposed: bool = False
    output_padding: Shape = ()
    """What a transposed convolution adds to one side of its output; else 0."""
    occurrences: int = 1
    """How often the network that it is from has it."""

    def __post_init__(self) -> None:
        spatial = len(self.input_shape) - 2
        for what in SPATIAL:  # a single size applies to each
            sizes = getattr(self, what) or (0,)
            object.__setattr__(self, what, sizes * spatial if len(sizes) == 1 else sizes)
        if any(self.output_padding) and not self.transposed:
            raise WorkloadError(f"problem {self.name}: only a transposed one has output padding")
        for what in SPATIAL:
            if len(getattr(self, what)) != spatial:
                raise WorkloadError(
                    f"problem {self.name}: {what} {getattr(self, what)} has not one number "
                    f"for each of {spatial} spatial sizes"
                )
        if self.input_shape[1] % self.groups or self.out_channels % self.groups:
            raise WorkloadError(
                f"problem {self.name}: {self.groups} groups do not divide the channels"
            )

    @property
    def weight_shape(self) -> Shape:
        """As PyTorch has it: the first size is the output's channels, transposed the input's."""
        first, second = self.out_channels, self.input_shape[1]
        if self.transposed:
            first, second = second, first
        return (first, second // self.groups, *self.kernel_size)

    def output_shape(self, shape: Shape) -> Shape:
        """Output shape for an input of this shape; the formulas of torch.nn.ConvNd and ConvTransposeNd."""
        sizes = zip(
            shape[2:],
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.output_padding,
            strict=True,
        )
        return (shape[0], self.out_channels, *(self._output_size(*size) for size in sizes))

    def _output_size(
        self, size: int, kernel: int, stride: int, padding: int, dilation: int, added: int
    ) -> int:
        reach = dilation * (kernel - 1)
        if self.transposed:
            return (size - 1) * stride - 2 * padding + reach + added + 1
        return (size + 2 * padding - reach - 1) // stride + 1

    def with_batch(self, batch: int) -> "ConvProblem":
        return replace(self, input_shape=(batch, *self.input_shape[1:]))


@cache
def load_problems() -> dict[str, ConvProblem]:
    """Every problem of every file, as `file/name`.

    A file's columns are those of ConvProblem; `transposed`, `output_padding` and
    `occurrences` may be left out.
    """
    found = {}
    for table in sorted(PROBLEMS.iterdir(), key=lambda file: file.name):
        lines = [line for line in table.read_text().splitlines() if not line.startswith("#")]
        for row in csv.DictReader(lines):
            name = f"{table.name.removesuffix('.csv')}/{row['name']}"
            found[name] = problem_of(name, row)
    return found


def find_problem(name: str) -> ConvProblem:
    if name not in load_problems():
        raise unknown("problem", name, list(load_problems()))
    return load_problems()[name]


def problem_of(name: str, row: Mapping[str, str]) -> ConvProblem:
    """From texts by column; a size that is left out is 0."""
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
    """`8x3x224x224`. Raises ValueError for anything else."""
    sizes = text.split("x")
    if not all(size.isdecimal() for size in sizes):
        raise ValueError(f"expected sizes such as 8x3x224x224, found {text!r}")
    return tuple(int(size) for size in sizes)


def none_empty(sizes: Shape) -> Shape:
    """Raises ValueError for a size of 0."""
    if 0 in sizes:
        raise ValueError(f"expected sizes of 1 or more, found {sizes_text(sizes)!r}")
    return sizes


def space_names(shape: Shape) -> tuple[str, ...]:
    """What the sizes in space of an input are called; of 16x128, a batch of sequences, too."""
    return ("depth", "height", "width")[-(len(shape) - 2) :] if len(shape) > 3 else ("length",)


def named_sizes(shape: Shape) -> dict[str, int]:
    """Each of an input's sizes by its name: batch, channels where there are any, and those in space."""
    if len(shape) > MOST_SIZES:
        raise WorkloadError(
            f"the input {sizes_text(shape)} has {len(shape)} sizes; at most {MOST_SIZES} have names: batch, "
            "channels, depth, height, width"
        )
    space = space_names(shape)
    names = ("batch", *(("channels",) if len(shape) > 2 else ()), *space)
    return dict(zip(names, shape, strict=True))


def sizes_text(sizes: Shape) -> str:
    """As `parse_sizes` reads it."""
    return "x".join(map(str, sizes))
