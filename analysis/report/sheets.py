"""The tables of a report, as columns and rows of what JSON knows.

A row with a `cell` is about that row of the table `cells`; one with a `contrast` about that one of
the report's contrasts.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

import pyarrow as pa

from cudnn_sweep.analysis.answering.short_texts import short_names
from cudnn_sweep.analysis.answering.verdicts import CACHES, BreakEven, CellKey, Verdict, payback
from cudnn_sweep.analysis.asking.settings import config_name, texts_in, texts_of
from cudnn_sweep.analysis.report.cells import OF_CELL
from cudnn_sweep.analysis.report.content import Compared, Content, effect
from cudnn_sweep.analysis.storing.schema import settings
from cudnn_sweep.analysis.words import cudnn_version

Scalar: TypeAlias = str | float | int | bool | None
Row: TypeAlias = Mapping[str, Scalar]

METHODS = {True: "in turns", False: "one after another"}
DIGITS = 6  # of a number in the file: more than any measurement has
MOST_FAILURES = 200  # listed; the count is of all
CHART_NAME = 50  # characters that a chart of a phone has room for
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
"""Titles of the verdicts' columns that a page and Markdown show."""
LABELS = ("row_label", "regime_label", "size_label")
CERTAIN = ("after", "at once", "until", "never")  # outcomes whose gain or loss is surely not zero


@dataclass(frozen=True, kw_only=True, slots=True)
class Sheet:
    columns: Sequence[str]
    rows: Sequence[Sequence[Scalar]]

    def as_json(self) -> dict[str, object]:
        return {"columns": self.columns, "rows": self.rows}


def sheets(content: Content) -> dict[str, Sheet]:
    numbers = content.numbers
    return {
        "cells": _sheet(_cells(content)),
        "verdicts": _sheet(_verdict(*each) for each in _answers(content)),
        "paybacks": _sheet(
            _payback(about, verdict, row)
            for about, verdict, compared in _answers(content)
            for row in compared.paybacks(verdict).values()
        ),
        "cold_costs": _sheet(_colds(content, numbers)),
        "choices": _of_cells(content.choices, numbers, _choice),
        "trials": _of_cells(content.trials, numbers, _trial),
        "environments": _sheet(map(_environment, content.environments.to_pylist())),
        "sweeps": _arrow(content.sweeps),
        "failures": _arrow(content.failures.slice(0, MOST_FAILURES)),
    }


def plain(value: object) -> Scalar:
    """A value as JSON has it: what is not finite becomes null, what is no scalar its text."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, list):
        return ", ".join(str(each) for each in value)
    return value if value is None or isinstance(value, str | int) else str(value)


def _sheet(rows: Iterable[Row]) -> Sheet:
    listed = list(rows)
    columns = tuple(listed[0]) if listed else ()
    return Sheet(columns=columns, rows=[[plain(row[name]) for name in columns] for row in listed])


def _arrow(table: pa.Table) -> Sheet:
    return _sheet(table.to_pylist())


def _environment(row: dict[str, Any]) -> Row:
    return row | {"cudnn": row["cudnn"] and cudnn_version(row["cudnn"])}


def _of_cells(
    table: pa.Table, numbers: Mapping[CellKey, int], shown: Callable[[Row], Row]
) -> Sheet:
    rows = table.to_pylist()
    return _sheet({"cell": numbers[_key(row)]} | dict(shown(row)) for row in rows)


def _key(row: Mapping[str, Any]) -> CellKey:
    return row["cell_id"], row["env_hash"], row["software_hash"], row["workload_hash"]


def _cells(content: Content) -> Iterable[Row]:
    short = short_names([cell.label for cell in content.cells], CHART_NAME)
    for cell, short_label in zip(content.cells, short, strict=True):
        stored = cell.stored
        yield {name: vars(stored)[name] for name in OF_CELL if not name.endswith("_hash")} | {
            "label": cell.label,
            "short_label": short_label,
            **{name: getattr(cell, name) for name in LABELS},
            "workload": stored.problem or stored.workload,
            "batch": stored.shape[0],
            "size": stored.size,
            "size_elements": math.prod(stored.shape[1:]),
            "family": cell.family,
        }


def _answers(content: Content) -> Iterable[tuple[Row, Verdict, Compared]]:
    """Each verdict, with what its rows begin with."""
    for number, compared in enumerate(content.compared):
        labels = _labels(content, compared)
        short = short_names(labels, CHART_NAME)
        for verdict, label, short_label in zip(compared.verdicts, labels, short, strict=True):
            about = {"cell": content.numbers[verdict.key], "contrast": number}
            yield about | {"label": label, "short_label": short_label}, verdict, compared


def _labels(content: Content, compared: Compared) -> list[str]:
    """Each verdict's cell, with the settings that both its configs share where those differ, and how its
    closed loop was measured where both ways are there.
    """
    names = {cell.stored.key: cell.label for cell in content.cells}
    ways = {verdict.in_turns for verdict in compared.verdicts if verdict.loop_kind == "closed"}
    settings = [set(texts_in(verdict.other_settings).items()) for verdict in compared.verdicts]
    common = set.intersection(*settings)
    labels = [
        " ".join(
            [
                names[verdict.key],
                *("=".join(one) for one in sorted(each - common)),
                *([METHODS[verdict.in_turns]] if len(ways) > 1 else []),
            ]
        )
        for verdict, each in zip(compared.verdicts, settings, strict=True)
    ]
    count = Counter(labels)
    return [
        label if count[label] == 1 else f"{label} ({verdict.loop_kind} loop)"
        for label, verdict in zip(labels, compared.verdicts, strict=True)
    ]


def _verdict(about: Row, verdict: Verdict, compared: Compared) -> Row:
    row = {**_answered(verdict), **about, "verdict": verdict.wall_verdict}
    for cache in CACHES:
        paid = compared.paybacks(verdict).get(cache)
        row[f"{cache}_payback"] = payback(paid) if paid else None
        row[f"{cache}_iterations"] = paid.break_even_iterations if paid else None
    return row


def _payback(about: Row, verdict: Verdict, row: BreakEven) -> Row:
    certain = "yes" if row.outcome in CERTAIN else "no"
    return {**_answered(row), **about, "is_certain": certain, "effect": effect(verdict.ratio)}


def _answered(row: Verdict | BreakEven) -> Row:
    """All of it that is not about the cell itself."""
    return {name: value for name, value in vars(row).items() if name not in OF_CELL}


def _colds(content: Content, numbers: Mapping[CellKey, int]) -> Iterable[Row]:
    """A row for the baseline and one for the candidate of each answer."""
    for number, compared in enumerate(content.compared):
        contrast = compared.contrast
        for row in (row for states in compared.break_evens.values() for row in states.values()):
            for side in ("baseline", "candidate"):
                cold_ms = getattr(row, f"{side}_cold_ms")
                yield {
                    "cell": numbers[row.key],
                    "contrast": number,
                    "config": f"{contrast.field}={getattr(contrast, side)}",
                    "compute_cache": row.compute_cache,
                    "shapes": row.shapes,
                    "cold_s": cold_ms / 1000 if cold_ms is not None else None,
                    "blocks": row.tuning_blocks,
                }


def _choice(row: Row) -> Row:
    names = ("choice_share", "entropy_bits", "distinct_choices", "processes", "cell_choices")
    two = {"choice_share": None} if row["processes"] in (1, 2) else {}  # which tell nothing
    return {"config": config_name(texts_of(row))} | {name: row[name] for name in names} | two


def _trial(row: Row) -> Row:
    """What questions/trials.sql has of it, its settings as the name of a config."""
    kept = {name: row[name] for name in row if name not in OF_CELL and name not in settings()}
    return {"config": config_name(texts_of(row))} | kept
