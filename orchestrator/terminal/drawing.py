"""Draws tables for a terminal."""

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cudnn_sweep.analysis.results.marked import CELL, MarkedColumn
from cudnn_sweep.analysis.results.short_texts import short_names, short_sentence

if TYPE_CHECKING:
    import pyarrow as pa

LEAST_SHOWN = 5  # columns; those after them are dropped before texts are cut below ROOM
ROOM = 38
LEAST_TEXT = 24  # width to which a long text may be cut
LEAST_ID = 12  # width to which a long word, for example a GPU's UUID, may be cut
GAP = 2  # blanks between two columns


def draw(answer: "pa.Table", width: int | None) -> str:
    """Return the answer as a table, or as a block of lines for each row if `width` is too small."""
    from cudnn_sweep.analysis.engine.formats import plain_rows, readable
    from cudnn_sweep.analysis.words import printable

    rows = [[printable(readable(value)) for value in row] for row in plain_rows(answer)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for field in answer.schema:
        is_number = str(field.type).startswith(("int", "double", "decimal"))
        table.add_column(Text(field.name), justify="right" if is_number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    needed = Console(width=100_000).measure(table).maximum
    if width is not None and needed > width:
        return _blocks(answer.column_names, rows)
    return table_text(table, needed)


def draw_marked(columns: Sequence[MarkedColumn], width: int | None) -> str:
    """Draw a table, and shorten it if it is wider than `width`."""
    if not columns or not columns[0].texts:
        return ""
    for whole in (True, False):
        texts = ((each.name, *(each.whole if whole else each.texts)) for each in columns)
        needed = sum(max(map(cell_len, text)) + GAP for text in texts) - GAP
        if width is None or needed <= width:
            return _drawn(columns, whole, needed)
    assert width is not None
    if _room(columns, width) < 0:
        columns = _shortened(columns, width)
    return _drawn(columns, False, width, heads_broken=True)


def _shortened(columns: Sequence[MarkedColumn], width: int) -> Sequence[MarkedColumn]:
    kept = next((index for index, column in enumerate(columns) if column.name == CELL), 0) + 1
    for least_shown, least in ((LEAST_SHOWN, ROOM), (kept, LEAST_TEXT)):
        leasts = [_least(column, least) for column in columns]
        while len(columns) > least_shown and _room(columns, width, leasts) < 0:
            columns, leasts = columns[:-1], leasts[:-1]
    sizes = leasts
    for most in (ROOM, width):
        for index, column in enumerate(columns):
            more = max(0, _room(columns, width, sizes))
            sizes[index] = max(sizes[index], min(_narrow(column), most, sizes[index] + more))
    return list(map(_cut, columns, sizes))


def _room(columns: Sequence[MarkedColumn], width: int, sizes: Sequence[int] | None = None) -> int:
    sizes = list(map(_narrow, columns)) if sizes is None else sizes
    return width - sum(sizes) - GAP * (len(columns) - 1)


def _least(column: MarkedColumn, least: int) -> int:
    """Return the smallest width to which a column may be cut."""
    needed = _narrow(column)
    if column.is_number or needed <= LEAST_TEXT:
        return needed
    head = max(map(cell_len, column.name.split("_")))
    is_one_word = not any(" " in text for text in column.texts)
    return max(head, LEAST_ID if is_one_word and column.name != CELL else min(needed, least))


def _cut(column: MarkedColumn, width: int) -> MarkedColumn:
    if _narrow(column) <= width:
        return column
    if column.name == CELL or not any(" " in text for text in column.texts):
        return replace(column, texts=short_names(column.texts, width))
    return replace(column, texts=[short_sentence(text, width) for text in column.texts])


def _narrow(column: MarkedColumn) -> int:
    return max(map(cell_len, [*column.name.split("_"), *column.texts]))


def _drawn(
    columns: Sequence[MarkedColumn], whole: bool, width: int, *, heads_broken: bool = False
) -> str:
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
    for column in columns:
        head = column.name.replace("_", "\n") if heads_broken else column.name
        side: Literal["left", "right"] = "right" if column.is_number else "left"
        table.add_column(Text(head), justify=side, no_wrap=column.name != CELL, vertical="bottom")
    cells = [column.whole if whole else column.texts for column in columns]
    for row in zip(*cells, strict=True):
        table.add_row(*map(Text, row))
    return table_text(table, width)


def table_text(table: Table, width: int) -> str:
    console = Console(file=StringIO(), width=width, color_system=None)
    with console.capture() as drawn:
        console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in drawn.get().splitlines())


def _blocks(names: list[str], rows: list[list[str]]) -> str:
    margin = max(map(len, names))
    blocks = [
        "\n".join(
            f"{name:<{margin}}  {cell}" for name, cell in zip(names, row, strict=True) if cell
        )
        for row in rows
    ]
    return "\n\n".join(blocks) + "\n"
