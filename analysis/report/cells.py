"""Makes short unique names for the cells and verdicts of a report."""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from cudnn_sweep.analysis.engine.axes import NAMED
from cudnn_sweep.analysis.engine.settings import texts_in
from cudnn_sweep.analysis.results.cell_names import (
    ID_CHARACTERS,
    CellRow,
    Words,
    added,
    words_apart,
)
from cudnn_sweep.analysis.results.verdicts import CellKey, OfCell, Verdict
from cudnn_sweep.analysis.store.schema import axes
from cudnn_sweep.analysis.words import cudnn_version

SHARED = [
    name for name in axes() if name not in ("workload", "problem", "input_shape", "regime", "state")
]
ENVIRONMENT = ("gpu", "torch", "cudnn", "driver", "code")
VERSIONS = ("cell_id", "env_hash", "software_hash", "workload_hash")
OF_CELL = (*VERSIONS, *NAMED, *ENVIRONMENT, "trials")
METHODS = {True: "in turns", False: "one after another"}


class ReportCell(OfCell):
    """A row of questions/cells.sql, with names. `label` ends with `place` (GPU and versions)."""


def named(table: pa.Table) -> list[ReportCell]:
    rows = table.to_pylist()
    for row in rows:
        row["cudnn"] = row["cudnn"] and f"cuDNN {cudnn_version(row['cudnn'])}"
    words = words_apart(rows)
    shown = {"what", *_telling_apart(words)}
    environment = _telling_environments(rows)
    places = [" ".join(value for name in environment if (value := row[name])) for row in rows]
    labels = added(_joined(words, shown, places), [row["cell_id"][:ID_CHARACTERS] for row in rows])
    families = _joined(words, shown - {"input_shape"}, places)
    shapes = {(family, row["input_shape"]) for family, row in zip(families, rows, strict=True)}
    members = Counter(family for family, _ in shapes)
    names = {
        "label": labels,
        "line": _joined(words, shown),
        "place": places,
        "row_label": _joined(words, shown - {"regime"}, places),
        "grid_label": _joined(words, shown - {"precision", "layout"}),
        "regime_label": [parts["regime"] for parts in words],
        "family": [family if members[family] > 1 else None for family in families],
    }
    for row, parts, of_cell in zip(rows, words, zip(*names.values(), strict=True), strict=True):
        row |= dict(zip(names, of_cell, strict=True))
        batch, _, size = row["input_shape"].partition("x")
        columns = [row["precision"], parts.get("layout"), row["place"].replace("NVIDIA ", "")]
        row["precision_label"] = " ".join(filter(None, columns))
        row["size_label"] = row["family"] and f"{row['family']} {size}".rstrip()
        elements = math.prod(map(int, filter(None, size.split("x"))))
        row |= {"batch": int(batch), "size": size, "size_elements": elements}
    return [ReportCell(**row) for row in rows]


def shared(cells: Sequence[ReportCell]) -> list[str]:
    """Return the values that all cells have in common, for example the GPU."""
    columns = [{vars(cell)[name] for cell in cells} for name in (*ENVIRONMENT, *SHARED)]
    return [value for values in columns if len(values) == 1 and (value := values.pop()) is not None]


def verdict_labels(
    verdicts: Sequence[Verdict], cells: Mapping[CellKey, ReportCell]
) -> list[tuple[str, str]]:
    """Return two labels for each verdict, one with GPU and versions and one without."""
    ways = {verdict.in_turns for verdict in verdicts if verdict.loop_kind == "closed"}
    of_race = {v.other_settings: v.other_settings.partition(" beside ") for v in verdicts}
    settings = [{*texts_in(other).items()} for other, _, _ in of_race.values()]
    is_race = any(best for _, _, best in of_race.values())
    common = set() if is_race else set.intersection(*settings)
    names = [" ".join(map("=".join, sorted(pairs - common))) for pairs in settings]
    stages = [f"{beside}{best}".strip() for _, beside, best in of_race.values()]
    own = dict(zip(of_race, added(names, stages), strict=True))
    labels, lines = [], []
    for verdict in verdicts:
        method = METHODS[verdict.in_turns] if len(ways) > 1 else ""
        cell, words = cells[verdict.key], [own[verdict.other_settings], method]
        labels.append(" ".join(filter(None, [cell.label, *words])))
        lines.append(" ".join(filter(None, [cell.line, *words])))
    labels = added(labels, [f"({verdict.loop_kind} loop)" for verdict in verdicts])
    return [*zip(labels, lines, strict=True)]


def _telling_apart(words: list[Words]) -> list[str]:
    shapes = {(names["what"], names["input_shape"]) for names in words}
    is_sized = len(shapes) > len({what for what, _ in shapes})
    return [
        about
        for about in dict.fromkeys(about for names in words for about in names)
        if len({names.get(about) for names in words}) > 1 and (about != "input_shape" or is_sized)
    ]


def _telling_environments(rows: Sequence[CellRow]) -> list[str]:
    parts: list[str] = []
    for name in ENVIRONMENT:
        besides = [*parts, "cell_id"] if name == "code" else parts
        coarse = {tuple(row[column] for column in besides) for row in rows}
        finer = {tuple(row[column] for column in (*besides, name)) for row in rows}
        if len(finer) > len(coarse):
            parts.append(name)
    return parts


def _joined(words: list[Words], shown: Collection[str], places: Sequence[str] = ()) -> list[str]:
    names = [[word for about, word in parts.items() if about in shown] for parts in words]
    ends = zip(names, places or [""] * len(words), strict=True)
    return [" ".join([*name, end]).rstrip() for name, end in ends]
