"""The cells of a report, each under the shortest name that tells it from the others."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cudnn_sweep.analysis.answering.cell_names import ID_CHARACTERS, CellRow, Words, words_apart
from cudnn_sweep.analysis.answering.verdicts import OfCell
from cudnn_sweep.analysis.asking.axes import NAMED
from cudnn_sweep.analysis.storing.schema import axes
from cudnn_sweep.analysis.words import cudnn_version

SHARED = [
    name for name in axes() if name not in ("workload", "problem", "input_shape", "regime", "state")
]
ENVIRONMENT = ("gpu", "torch", "cudnn", "driver", "code")
OF_CELL = ("cell_id", "env_hash", "software_hash", "workload_hash", *NAMED, *ENVIRONMENT, "trials")


class StoredCell(OfCell):
    """A row of questions/cells.sql, OF_CELL: what it is, what measured it (`code` is the beginning of workload_hash),
    and how many trials it has.
    """

    @property
    def shape(self) -> list[int]:
        return [int(size) for size in self.input_shape.split("x")]

    @property
    def size(self) -> str:
        return str(self.input_shape.partition("x")[2])


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportCell:
    """A cell with its names; its place in the report's list is its number elsewhere."""

    stored: StoredCell
    label: str
    row_label: str
    """The label without the regime: cells that differ in the regime alone share it."""
    regime_label: str
    family: str | None
    """The label without the input's shape, where cells of several shapes share it."""

    @property
    def size_label(self) -> str | None:
        """With the sizes, without the batch: cells that differ in the batch alone share it."""
        return self.family and f"{self.family} {self.stored.size}".rstrip()


def named(table: pa.Table) -> list[ReportCell]:
    """The cells with names that leave out what all of them share; `shared` has it."""
    rows = [_with_cudnn(row) for row in table.to_pylist()]
    cells = [StoredCell(**row) for row in rows]
    words = words_apart(rows)
    shown = {"what", *_telling_apart(words)}
    environment = _telling_environments(rows)
    places = [" ".join(value for name in environment if (value := row[name])) for row in rows]
    labels = _joined(words, shown, places)
    common = Counter(labels)
    families = _joined(words, shown - {"input_shape"}, places)
    shapes = {(family, row["input_shape"]) for family, row in zip(families, rows, strict=True)}
    members = Counter(family for family, _ in shapes)
    return [
        ReportCell(
            stored=cell,
            label=label if common[label] == 1 else f"{label} {cell.cell_id[:ID_CHARACTERS]}",
            row_label=row,
            regime_label=each["regime"],
            family=family if members[family] > 1 else None,
        )
        for cell, each, label, row, family in zip(
            cells,
            words,
            labels,
            _joined(words, shown - {"regime"}, places),
            families,
            strict=True,
        )
    ]


def shared(cells: list[ReportCell]) -> list[str]:
    """The parts that every cell has in common, which no name has."""
    rows = [vars(cell.stored) for cell in cells]
    columns = [{row[name] for row in rows} for name in (*ENVIRONMENT, *SHARED)]
    return [value for values in columns if len(values) == 1 and (value := values.pop()) is not None]


def _telling_apart(words: list[Words]) -> list[str]:
    """The words in which cells differ: the sizes only where one workload has several."""
    differing = [
        about
        for about in dict.fromkeys(about for each in words for about in each)
        if len({each.get(about) for each in words}) > 1
    ]
    shapes = defaultdict(set)
    for each in words:
        shapes[each["what"]].add(each["input_shape"])
    several = any(len(each) > 1 for each in shapes.values())
    return [about for about in differing if about != "input_shape" or several]


def _with_cudnn(row: dict[str, Any]) -> dict[str, Any]:
    number = row["cudnn"]
    return row | {"cudnn": number and f"cuDNN {cudnn_version(number)}"}


def _telling_environments(rows: Sequence[CellRow]) -> list[str]:
    """Parts that tell environments apart, without those that follow from the rest. Code is a cell's own:
    it is among them where one cell ran in several versions.
    """
    parts: list[str] = []
    for name in ENVIRONMENT:
        besides = [*parts, "cell_id"] if name == "code" else parts
        coarse = {tuple(row[each] for each in besides) for row in rows}
        finer = {tuple(row[each] for each in (*besides, name)) for row in rows}
        if len(finer) > len(coarse):
            parts.append(name)
    return parts


def _joined(words: list[Words], shown: Collection[str], places: Sequence[str]) -> list[str]:
    names = [[word for about, word in each.items() if about in shown] for each in words]
    return [" ".join([*name, end]).rstrip() for name, end in zip(names, places, strict=True)]
