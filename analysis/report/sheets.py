"""Makes the tables of a report. `cell` and `contrast` are indexes of cells and contrasts."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from cudnn_sweep.analysis.report.cells import OF_CELL, VERSIONS
from cudnn_sweep.analysis.report.content import Content, JudgedCell, rounded
from cudnn_sweep.analysis.results.verdicts import CACHES, CellKey, payback
from cudnn_sweep.analysis.words import cudnn_version

Scalar: TypeAlias = str | float | int | bool | None
Row: TypeAlias = dict[str, Any]

PLAIN = {str, int, bool, type(None)}  # types that JSON can represent
OF_JOB = (*VERSIONS, "other_settings", "loop_kind", "in_turns", "contrast")
MOST_FAILURES = 200  # largest number of failures in the table
SHOWN = {
    "label": "cell",
    "baseline_ms": "baseline ms",
    "candidate_ms": "candidate ms",
    "ratio": "ratio",
    "ratio_low": "low",
    "ratio_high": "high",
    "blocks": "blocks",
    "wall_in_words": "verdict",
    "device_ratio": "device ratio",
    "device_verdict": "device verdict",
    "empty_payback": "break-even, empty cache",
    "warm_payback": "break-even, warm cache",
    "memory_ratio": "memory ratio",
    "blocks_needed": "more blocks to decide",
}
"""Titles of those columns of the table `verdicts` that a report shows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sheet:
    columns: Sequence[str]
    answered: Sequence[Row]
    """Rows of the query. `column` converts their values for JSON."""

    @property
    def rows(self) -> list[tuple[Scalar, ...]]:
        return [*zip(*map(self.column, self.columns), strict=True)]

    def column(self, name: str) -> Sequence[Scalar]:
        values = [row[name] for row in self.answered]
        kinds = {*map(type, values)}
        if kinds <= PLAIN:
            return values
        return [*map(rounded if kinds <= {float, type(None)} else plain, values)]


def sheets(content: Content) -> dict[str, Sheet]:
    numbers = {cell.key: number for number, cell in enumerate(content.cells)}

    def of_cells(rows: Iterable[Row]) -> Iterator[Row]:
        return ({"cell": numbers[tuple(row[name] for name in VERSIONS)], **row} for row in rows)

    answers = list(_answers(content, numbers))
    return {
        "cells": _sheet(
            (vars(cell) | {"workload": cell.problem or cell.workload} for cell in content.cells),
            VERSIONS[1:],
        ),
        "verdicts": _sheet((_verdict(about, judged) for about, judged in answers), OF_CELL),
        "paybacks": _sheet(
            (vars(row) | about for about, judged in answers for row in judged.paybacks.values()),
            OF_CELL,
        ),
        "jobs": _sheet(
            (
                {"answer": number, **job}
                for number, (_, judged) in enumerate(answers)
                for job in judged.jobs
            ),
            OF_JOB,
        ),
        "trials": _sheet(of_cells(content.trials.to_pylist()), OF_CELL),
        "kernels": _sheet(of_cells(content.kernels.to_pylist()), OF_CELL),
        "environments": _sheet(
            row | {"cudnn": row["cudnn"] and cudnn_version(row["cudnn"])}
            for row in content.environments.to_pylist()
        ),
        "sweeps": _sheet(content.sweeps.to_pylist()),
        "failures": _sheet(content.failures.slice(0, MOST_FAILURES).to_pylist()),
    }


def plain(value: object) -> Scalar:
    """Convert a value for JSON. NaN and infinity become None, and lists become text."""
    if isinstance(value, float):
        return rounded(value)
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def _sheet(rows: Iterable[Row], without: Collection[str] = ()) -> Sheet:
    listed = list(rows)
    names = [name for name in (listed[0] if listed else ()) if name not in without]
    return Sheet(columns=names, answered=listed)


def _answers(content: Content, numbers: Mapping[CellKey, int]) -> Iterator[tuple[Row, JudgedCell]]:
    """Yield a row with the common columns, and the cell itself, for each judged cell."""
    for number, compared in enumerate(content.compared):
        for cell in compared.cells:
            about = {"cell": numbers[cell.cell.key], "contrast": number}
            own_words = cell.line[len(cell.cell.line) :]  # settings, and how processes ran
            grid_label = cell.cell.grid_label + own_words
            yield about | {"label": cell.label, "line": cell.line, "grid_label": grid_label}, cell


def _verdict(about: Row, judged: JudgedCell) -> Row:
    row = vars(judged.verdict) | about | {"verdict": judged.verdict.wall_verdict}
    other, _, best = judged.verdict.other_settings.partition(" beside ")
    row |= {"best": best or None, "other": other if best else None}  # only in a race
    for cache in CACHES:
        paid = judged.paybacks.get(cache)
        row[f"{cache}_payback"] = payback(paid) if paid else None
        row[f"{cache}_iterations"] = paid.break_even_iterations if paid else None
    return row
