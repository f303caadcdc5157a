"""The cells of a report, each under the shortest name that tells it from the others."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

ID_CHARACTERS = 6  # of a cell_id, where nothing else tells two cells apart
USUAL = ("plain", "contiguous", "", None)  # a state and a layout that need no word
GROUPED = ("direction", "precision", "layout")
ENVIRONMENT = ("gpu", "torch", "cudnn", "driver")
SAID_WHERE_SEVERAL = ("input_shape", "state", *GROUPED)


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
    torch: str
    cudnn: str | None
    driver: str | None
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
    group_label: str
    """For more cells than have room: problems of one kind together, whatever their sizes."""


def named(table: pa.Table) -> list[ReportCell]:
    """What all cells have in common is in no name; `shared` says it."""
    cells = [StoredCell(**row) for row in table.to_pylist()]
    said = [name for name in SAID_WHERE_SEVERAL if _is_told_apart_by(name, cells)]
    said += _environment_said(cells)
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
            group_label=_joined(
                _kind(cell), _values(cell, [name for name in GROUPED if name in said])
            ),
        )
        for cell, label, row, column in zip(cells, labels, rows, columns, strict=True)
    ]


def shared(cells: list[ReportCell]) -> list[str]:
    """What every cell has in common and no name says."""
    stored = [cell.stored for cell in cells]
    found = [{getattr(cell, name) for cell in stored} for name in (*ENVIRONMENT, *GROUPED)]
    return [value for values in found if len(values) == 1 and (value := values.pop()) is not None]


def _is_told_apart_by(name: str, cells: list[StoredCell]) -> bool:
    if name != "input_shape":
        return len({getattr(cell, name) for cell in cells}) > 1
    shapes = defaultdict(set)
    for cell in cells:
        shapes[cell.workload, cell.problem].add(cell.input_shape)
    return any(len(each) > 1 for each in shapes.values())


def _environment_said(cells: list[StoredCell]) -> list[str]:
    """What tells environments apart, and nothing that follows from the rest of it."""
    said: list[str] = []
    for name in ENVIRONMENT:
        known = {tuple(getattr(cell, each) for each in said) for cell in cells}
        finer = {tuple(getattr(cell, each) for each in (*said, name)) for cell in cells}
        if len(finer) > len(known):
            said.append(name)
    return said


def _values(cell: StoredCell, names: Iterable[str]) -> list[str]:
    return [value for name in names if (value := getattr(cell, name)) not in USUAL]


def _joined(what: str, values: list[str]) -> str:
    return " ".join([what, *values])


def _kind(cell: StoredCell) -> str:
    """Where problems are called KIND/NAME, their kind."""
    return (cell.problem or cell.workload).partition("/")[0]


def _regime(cell: StoredCell, *, numbered: bool) -> str:
    return (
        f"{cell.regime} ({cell.regime_numbers})"
        if numbered and cell.regime_numbers
        else cell.regime
    )
