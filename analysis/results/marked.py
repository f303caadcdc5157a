"""Selects the columns that a terminal shows. A question's SQL lists them:

    -- terminal: cell, baseline_ms, ratio[ratio_low ratio_high], wall_verdict

`cell` and `config` are names that are made for display. `ratio[ratio_low ratio_high]` is a ratio
with its interval. Empty columns are not shown.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from cudnn_sweep.analysis.engine.formats import plain_column, readable
from cudnn_sweep.analysis.engine.queries import NamedQuery
from cudnn_sweep.analysis.engine.settings import config_name, texts_in, texts_of, unusual_in
from cudnn_sweep.analysis.results.cell_names import CELLS, name_of_some, names_apart
from cudnn_sweep.analysis.words import printable

if TYPE_CHECKING:
    import pyarrow as pa

    from cudnn_sweep.analysis.engine.database import Database

CELL, CONFIG = "cell", "config"
COLUMN = re.compile(r"(?P<name>\w+)(?:\[(?P<low>\w+) (?P<high>\w+)\])?")


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkedColumn:
    name: str
    texts: Sequence[str]
    is_number: bool
    intervals: Sequence[str]
    """Interval that follows each text. Empty if the column has no intervals."""

    @property
    def whole(self) -> list[str]:
        return [text + more for text, more in zip_longest(self.texts, self.intervals, fillvalue="")]


def marked_columns(
    database: "Database", question: NamedQuery, answer: "pa.Table"
) -> list[MarkedColumn]:
    if not question.terminal:
        return [_column(answer, name) for name in answer.column_names]
    rows = answer.to_pylist()
    columns = []
    for text in question.terminal:
        match = COLUMN.fullmatch(text)
        assert match is not None, f"{question.name}: -- terminal: {text}"
        name = match["name"]
        if name == CELL:
            columns.append(_cell_column(database, rows))
        elif name == CONFIG:
            has = "settings" in answer.column_names
            texts = (texts_in(row["settings"]) if has else texts_of(row) for row in rows)
            columns.append(_words(CONFIG, [config_name(config) for config in texts]))
        else:
            columns.append(_column(answer, name, match["low"], match["high"]))
    return [column for column in columns if any(column.texts) or not rows]


def _cell_column(database: "Database", rows: Sequence[Mapping[str, Any]]) -> MarkedColumn:
    ids = {row["cell_id"] for row in rows}
    cells = [row for row in database.query(CELLS).to_pylist() if row["cell_id"] in ids]
    names = names_apart(cells)
    whole = [names.get(row["cell_id"]) or name_of_some(row) for row in rows]
    shared = [unusual_in(row.get("other_settings") or "") for row in rows]
    return _words(CELL, [" ".join([name, *more]) for name, more in zip(whole, shared, strict=True)])


def _column(
    answer: "pa.Table", name: str, low: str | None = None, high: str | None = None
) -> MarkedColumn:
    lows, highs = (_texts(answer, end) if end else [] for end in (low, high))
    pairs = zip(lows, highs, strict=True)
    return MarkedColumn(
        name=name,
        texts=_texts(answer, name),
        is_number=str(answer.schema.field(name).type).startswith(("int", "double", "decimal")),
        intervals=[f" ({low}–{high})" if low and high else "" for low, high in pairs],
    )


def _texts(answer: "pa.Table", name: str) -> list[str]:
    return [printable(readable(value)) for value in plain_column(answer, name)]


def _words(name: str, texts: Sequence[str]) -> MarkedColumn:
    shown = [printable(text) for text in texts]
    return MarkedColumn(name=name, texts=shown, is_number=False, intervals=[])
