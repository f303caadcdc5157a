"""The cells of a report, each under the shortest name that tells it from the others."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

ID_CHARACTERS = 6  # of a cell_id, where nothing else tells two cells apart
USUAL = ("plain", "contiguous", "", None)  # a state and a layout that need no word
SAID_WHERE_SEVERAL = ("direction", "input_shape", "state", "precision", "layout", "gpu", "software")


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredCell:
    """A row of questions/cells.sql."""

    cell_id: str
    env_hash: str
    software_hash: str
    workload: str
    problem: str | None
    direction: str
    input_shape: str
    regime: str
    regime_numbers: str | None
    state: str | None
    precision: str
    layout: str
    gpu: str
    software: str
    trials: int

    @property
    def key(self) -> tuple[str, str, str]:
        return self.cell_id, self.env_hash, self.software_hash


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportCell:
    """A cell with its names; its place in the report's list is its number elsewhere."""

    stored: StoredCell
    label: str
    row_label: str
    """The label without the regime: cells that differ in the regime alone share it."""
    regime_label: str


def named(table: pa.Table) -> list[ReportCell]:
    """What all cells have in common is in no name; `shared` says it."""
    cells = [StoredCell(**row) for row in table.to_pylist()]
    said = [name for name in SAID_WHERE_SEVERAL if _is_told_apart_by(name, cells)]
    rows = [_joined(cell.problem or cell.workload, _values(cell, said)) for cell in cells]
    fields = Counter((row, cell.regime) for row, cell in zip(rows, cells, strict=True))
    numbered = {regime for (_, regime), count in fields.items() if count > 1}
    columns = [_regime(cell, numbered=cell.regime in numbered) for cell in cells]
    with_regime = len(set(columns)) > 1
    labels = [
        f"{row} {column}" if with_regime else row for row, column in zip(rows, columns, strict=True)
    ]
    common = Counter(labels)
    return [
        ReportCell(
            stored=cell,
            label=label if common[label] == 1 else f"{label} {cell.cell_id[:ID_CHARACTERS]}",
            row_label=row,
            regime_label=column,
        )
        for cell, label, row, column in zip(cells, labels, rows, columns, strict=True)
    ]


def shared(cells: list[ReportCell]) -> list[str]:
    """What every cell has in common and no name says."""
    stored = [cell.stored for cell in cells]
    names = ("gpu", "software", "direction", "precision", "layout")
    found = {name: {str(getattr(cell, name)) for cell in stored} for name in names}
    return [values.pop() for values in found.values() if len(values) == 1]


def _is_told_apart_by(name: str, cells: list[StoredCell]) -> bool:
    if name != "input_shape":
        return len({getattr(cell, name) for cell in cells}) > 1
    shapes = defaultdict(set)
    for cell in cells:
        shapes[cell.workload, cell.problem].add(cell.input_shape)
    return any(len(each) > 1 for each in shapes.values())


def _values(cell: StoredCell, names: Iterable[str]) -> list[str]:
    return [value for name in names if (value := getattr(cell, name)) not in USUAL]


def _joined(what: str, values: list[str]) -> str:
    return " ".join([what, *values])


def _regime(cell: StoredCell, *, numbered: bool) -> str:
    return (
        f"{cell.regime} ({cell.regime_numbers})"
        if numbered and cell.regime_numbers
        else cell.regime
    )
