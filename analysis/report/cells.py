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
    """What all cells have in common is in no name; `shared` says it."""
    rows = [_with_cudnn(row) for row in table.to_pylist()]
    cells = [StoredCell(**row) for row in rows]
    words = words_apart(rows)
    said = {"what", *_telling_apart(words)}
    environment = _environment_said(rows)
    places = [" ".join(value for name in environment if (value := row[name])) for row in rows]
    labels = _joined(words, said, places)
    common = Counter(labels)
    families = _joined(words, said - {"input_shape"}, places)
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
            _joined(words, said - {"regime"}, places),
            families,
            strict=True,
        )
    ]


def shared(cells: list[ReportCell]) -> list[str]:
    """What every cell has in common and no name says."""
    rows = [vars(cell.stored) for cell in cells]
    found = [{row[name] for row in rows} for name in (*ENVIRONMENT, *SHARED)]
    return [value for values in found if len(values) == 1 and (value := values.pop()) is not None]


def _telling_apart(words: list[Words]) -> list[str]:
    """What names have to say: the sizes only where one thing has several."""
    said = [
        about
        for about in dict.fromkeys(about for each in words for about in each)
        if len({each.get(about) for each in words}) > 1
    ]
    shapes = defaultdict(set)
    for each in words:
        shapes[each["what"]].add(each["input_shape"])
    several = any(len(each) > 1 for each in shapes.values())
    return [about for about in said if about != "input_shape" or several]


def _with_cudnn(row: dict[str, Any]) -> dict[str, Any]:
    number = row["cudnn"]
    return row | {"cudnn": number and f"cuDNN {cudnn_version(number)}"}


def _environment_said(rows: Sequence[CellRow]) -> list[str]:
    """What tells environments apart, and nothing that follows from the rest of it. Code is a cell's own:
    it is said where one cell ran in several versions.
    """
    said: list[str] = []
    for name in ENVIRONMENT:
        besides = [*said, "cell_id"] if name == "code" else said
        known = {tuple(row[each] for each in besides) for row in rows}
        finer = {tuple(row[each] for each in (*besides, name)) for row in rows}
        if len(finer) > len(known):
            said.append(name)
    return said


def _joined(words: list[Words], said: Collection[str], places: Sequence[str]) -> list[str]:
    names = [[word for about, word in each.items() if about in said] for each in words]
    return [" ".join([*name, end]).rstrip() for name, end in zip(names, places, strict=True)]
