"""The cells of a report, and the verdicts about them, each under the shortest name that tells it from the others."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from cudnn_sweep.analysis.answering.cell_names import ID_CHARACTERS, CellRow, Words, words_apart
from cudnn_sweep.analysis.answering.short_texts import short_names
from cudnn_sweep.analysis.answering.verdicts import CellKey, OfCell, Verdict
from cudnn_sweep.analysis.asking.axes import NAMED
from cudnn_sweep.analysis.asking.settings import texts_in
from cudnn_sweep.analysis.storing.schema import axes
from cudnn_sweep.analysis.words import cudnn_version

SHARED = [
    name for name in axes() if name not in ("workload", "problem", "input_shape", "regime", "state")
]
ENVIRONMENT = ("gpu", "torch", "cudnn", "driver", "code")
VERSIONS = ("cell_id", "env_hash", "software_hash", "workload_hash")
OF_CELL = (*VERSIONS, *NAMED, *ENVIRONMENT, "trials")
CHART_NAME = 50  # characters that a chart has room for
METHODS = {True: "in turns", False: "one after another"}


class ReportCell(OfCell):
    """A row of questions/cells.sql, OF_CELL: what it is, what measured it (`code` is the beginning of workload_hash),
    and how many trials it has. And its names: `label`; `short_label`; `row_label`, without the regime; `family`, without the input's
    shape, and `size_label`, without the batch, where cells of several shapes share them.
    """


def named(table: pa.Table) -> list[ReportCell]:
    """The cells with names that leave out what all of them share; `shared` has it."""
    rows = [_with_cudnn(row) for row in table.to_pylist()]
    words = words_apart(rows)
    shown = {"what", *_telling_apart(words)}
    environment = _telling_environments(rows)
    places = [" ".join(value for name in environment if (value := row[name])) for row in rows]
    labels = _joined(words, shown, places)
    common = Counter(labels)
    families = _joined(words, shown - {"input_shape"}, places)
    shapes = {(family, row["input_shape"]) for family, row in zip(families, rows, strict=True)}
    members = Counter(family for family, _ in shapes)
    row_labels = _joined(words, shown - {"regime"}, places)
    labels = [
        label if common[label] == 1 else f"{label} {row['cell_id'][:ID_CHARACTERS]}"
        for row, label in zip(rows, labels, strict=True)
    ]
    short_labels = short_names(labels, CHART_NAME)
    cells = []
    for row, each, label, short_label, row_label, family in zip(
        rows, words, labels, short_labels, row_labels, families, strict=True
    ):
        batch, _, size = row["input_shape"].partition("x")
        has_sizes = members[family] > 1
        names = {
            "label": label,
            "short_label": short_label,
            "row_label": row_label,
            "regime_label": each["regime"],
            "size_label": f"{family} {size}".rstrip() if has_sizes else None,
            "batch": int(batch),
            "size": size,
            "size_elements": math.prod(map(int, filter(None, size.split("x")))),
            "family": family if has_sizes else None,
        }
        cells.append(ReportCell(**row, **names))
    return cells


def shared(cells: Sequence[ReportCell]) -> list[str]:
    """The parts that every cell has in common, which no name has."""
    columns = [{vars(cell)[name] for cell in cells} for name in (*ENVIRONMENT, *SHARED)]
    return [value for values in columns if len(values) == 1 and (value := values.pop()) is not None]


def verdict_labels(verdicts: Sequence[Verdict], cells: Mapping[CellKey, ReportCell]) -> list[str]:
    """Each verdict's cell, with the settings that both its configs share where those differ, and how its
    closed loop was measured where both ways are there.
    """
    ways = {verdict.in_turns for verdict in verdicts if verdict.loop_kind == "closed"}
    settings = [set(texts_in(verdict.other_settings).items()) for verdict in verdicts]
    common = set.intersection(*settings)
    labels = [
        " ".join(
            [
                cells[verdict.key].label,
                *("=".join(one) for one in sorted(each - common)),
                *([METHODS[verdict.in_turns]] if len(ways) > 1 else []),
            ]
        )
        for verdict, each in zip(verdicts, settings, strict=True)
    ]
    count = Counter(labels)
    return [
        label if count[label] == 1 else f"{label} ({verdict.loop_kind} loop)"
        for label, verdict in zip(labels, verdicts, strict=True)
    ]


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
