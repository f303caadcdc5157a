"""Shapes from a user's CSV file, with columns such as `batch,height,width,count`."""

import csv
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, Field, ValidationInfo, model_validator
from pydantic.json_schema import SkipJsonSchema

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.problem import Shape, named_sizes, sizes_text, space_names
from cudnn_sweep.workloads.records.row import ListedShape
from cudnn_sweep.workloads.regime import ShapeRegime
from cudnn_sweep.workloads.strict import STRICT

SPACES = ({"length"}, {"height", "width"}, {"depth", "height", "width"})
COUNT = "count"
MOST_BYTES = 2**20
MOST_ROWS = 10_000  # every record contains all rows
LARGEST = 2**31 - 1
MOST_DRAWS = 10_000  # all draws are timed together


@dataclass(frozen=True, kw_only=True)
class Listed(ShapeRegime):
    """Shapes from a file. ListedSpec explains `draws`."""

    name = "listed"
    varies = "batch and space"

    shapes: tuple[ListedShape, ...]
    draws: int
    seed: int

    def period(self, base: Shape) -> tuple[Shape, ...]:
        draw = random.Random(self.seed)
        shapes = [tuple(listed.shape) for listed in self.shapes]
        counts = [listed.count for listed in self.shapes]
        if sum(counts) <= self.draws:
            return tuple(draw.sample(shapes, sum(counts), counts=counts))
        return tuple(draw.choices(shapes, counts, k=self.draws))

    def parameters(self) -> dict[str, float]:
        return {"draws": float(self.draws), "seed": float(self.seed)}


class ListedSpec(BaseModel):
    """Shapes from a file, and how often each shape occurs."""

    model_config = STRICT

    file: str = Field(min_length=1)
    """Path of a CSV file, relative to the YAML file. Its columns can be `batch`, `count`, and
    `length`, `height,width` or `depth,height,width`. Other sizes are taken from the cell."""
    draws: int = Field(default=100, ge=1, le=MOST_DRAWS)
    """Largest number of steps before the shapes repeat. If the sum of the counts is larger, this
    many shapes are drawn at random, with the counts as weights."""
    seed: int = 0
    """Seed of the random order. All configs and replicates have the same order."""
    rows: SkipJsonSchema[tuple[dict[str, int], ...]] = ()
    """Rows of the file. They are read together with the YAML file."""

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: object, info: ValidationInfo) -> object:
        if not isinstance(given, dict) or not isinstance(given.get("file"), str):
            return given
        if info.context is None and "rows" in given:  # sent with the suite
            return {**given, "rows": tuple(given["rows"])}
        if "rows" in given:
            raise ValueError("found `rows`, allowed: file, draws, seed")
        folder = Path(info.context["folder"]) if info.context else Path()
        return {**given, "rows": read_rows(folder, given["file"])}

    @property
    def name(self) -> str:
        return f"{Listed.name} {self.file}"

    @property
    def varies(self) -> set[str]:
        names = set(self.rows[0]) - {COUNT}
        return {"batch" if name == "batch" else "space" for name in names}

    def rule(self, base: Shape) -> Listed:
        """Return a regime. A size that the file does not list is taken from `base`."""
        space = [name for name in self.rows[0] if name not in ("batch", COUNT)]
        if space and set(space) != set(space_names(base)):
            raise WorkloadError(
                f"regime listed: {self.file} has the sizes {','.join(space)}, but the input "
                f"{sizes_text(base)} has the sizes {','.join(space_names(base))}"
            )
        sizes = named_sizes(base)
        counts: Counter[Shape] = Counter()
        for row in self.rows:
            counts[tuple((sizes | row)[name] for name in sizes)] += row[COUNT]
        shapes = (ListedShape(shape=list(shape), count=count) for shape, count in counts.items())
        return Listed(shapes=tuple(shapes), draws=self.draws, seed=self.seed)


class ListedChoice(BaseModel):
    """Shapes from a CSV file, written as `regime: {listed: {file: shapes.csv}}`."""

    model_config = STRICT

    listed: ListedSpec
    """File of shapes, and the number of shapes to draw."""


def read_rows(folder: Path, file: str) -> tuple[dict[str, int], ...]:
    path = folder / file
    try:
        with path.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise ValueError(f"found no file {path}") from None
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise ValueError(f"{path}: the file is larger than the {MOST_BYTES:,} bytes allowed")
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path}: the file is not a UTF-8 text") from None
    numbered = [
        (number, line)
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.startswith("#")
    ]
    if len(numbered) < 2 or len(numbered) > MOST_ROWS + 1:
        count = max(0, len(numbered) - 1)
        raise ValueError(
            f"{path}: found {count:,} shapes below the header; allowed: 1 to {MOST_ROWS:,}"
        )
    names = _columns(f"{path}:{numbered[0][0]}", _cells(numbered[0][1]))
    return tuple(_row(f"{path}:{number}", names, _cells(line)) for number, line in numbered[1:])


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line]))]


def _columns(where: str, names: Sequence[str]) -> Sequence[str]:
    space = set(names) - {"batch", COUNT}
    says_nothing = not space and "batch" not in names
    if len(set(names)) < len(names) or says_nothing or (space and space not in SPACES):
        raise ValueError(
            f"{where}: found the columns {','.join(names)[:200]}; allowed: batch, or the sizes "
            "length, height,width or depth,height,width, or both; a column count can be added"
        )
    return names


def _row(where: str, names: Sequence[str], cells: Sequence[str]) -> dict[str, int]:
    if len(cells) != len(names):
        raise ValueError(
            f"{where}: found {len(cells)} values for {len(names)} columns: {','.join(names)}"
        )
    for name, cell in zip(names, cells, strict=True):
        if not (cell.isascii() and cell.isdecimal() and 1 <= int(cell[:20]) <= LARGEST):
            raise ValueError(
                f"{where}: {name}: found {cell[:40]!r}, wanted a whole number of 1 or more"
            )
    return {COUNT: 1} | dict(zip(names, map(int, cells), strict=True))
