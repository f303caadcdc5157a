"""An answer drawn for people.

All columns: a table, or where that is wider than the terminal, a block a row. The marked ones: always a table,
a row on a line.
"""

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    import pyarrow as pa

    from cudnn_sweep.analysis.answering.marked import MarkedColumn

ROOM = (
    38  # columns of a terminal that names get before the last of more than LEAST_SHOWN columns do
)
LEAST_SHOWN = 5
LEAST_NAME = 24  # and before any other column does
LEAST_WORDS = (8, 5)  # characters of a word in a name that are left of it; 5 where 8 are too many
GAP = 2  # between two columns


def draw(answer: "pa.Table", width: int | None) -> str:
    """Text at most `width` wide; None: as wide as it needs."""
    from cudnn_sweep.analysis.asking.formats import plain_rows, readable
    from cudnn_sweep.analysis.printable import printable

    rows = [[printable(readable(value)) for value in row] for row in plain_rows(answer)]
    table = _table(answer, rows)
    console = Console(file=StringIO(), width=100_000, color_system=None)
    needed = Measurement.get(console, console.options, table).maximum
    if width is not None and needed > width:
        return _blocks(answer.column_names, rows)
    with console.capture() as drawn:
        console.print(table, width=needed)
    return "".join(f"{line.rstrip()}\n" for line in drawn.get().splitlines())


def draw_marked(columns: "Sequence[MarkedColumn]", width: int | None) -> str:
    """Where they do not fit, intervals go first, then heads get more lines, then names of cells become
    brief, then the last columns go, and what is still too long loses its middle.
    """
    if not columns or not columns[0].texts:
        return ""
    for whole in (True, False):
        needed = sum(_wide(column, whole) + GAP for column in columns)
        if width is None or needed <= width:
            return _drawn(columns, whole, needed)
    assert width is not None
    if sum(map(_narrow, columns)) > width + GAP:  # none behind the last
        columns = _shortened(columns, width)
    return _drawn(columns, False, width, heads_broken=True)


def _shortened(columns: "Sequence[MarkedColumn]", width: int) -> "Sequence[MarkedColumn]":
    columns = [replace(column, texts=column.briefer or column.texts) for column in columns]
    name = next((index for index, column in enumerate(columns) if column.briefer), 0)
    longest = max(map(cell_len, columns[name].texts))

    def room() -> int:
        """For names, as many gaps between as there are other columns."""
        return width - sum(_narrow(each) for each in columns if each is not columns[name])

    for least_shown, least_room in ((LEAST_SHOWN, ROOM), (name + 1, LEAST_NAME)):
        while len(columns) > least_shown and room() < min(longest, least_room):
            columns = columns[:-1]
    cut = [_cut(text, room()) for text in columns[name].texts]
    if len(set(cut)) == len(set(columns[name].texts)):  # else names get more lines
        columns[name] = replace(columns[name], texts=cut)
    return columns


def _cut(name: str, width: int) -> str:
    """Its longest words without their middle, the first word last of all."""
    words = name.split(" ")
    sizes = [len(word) for word in words]
    for least in LEAST_WORDS:
        while sum(sizes) + len(sizes) - 1 > width and max(sizes) > least:
            later = [index for index in range(1, len(words)) if sizes[index] > least]
            sizes[max(later or range(len(words)), key=sizes.__getitem__)] -= 1
    return " ".join(map(_without_middle, words, sizes))


def _without_middle(word: str, size: int) -> str:
    if len(word) <= size:
        return word
    end = (size - 1) // 2
    return f"{word[: size - 1 - end]}…{word[len(word) - end :]}"


def _wide(column: "MarkedColumn", whole: bool) -> int:
    return max(cell_len(text) for text in (column.name, *_cells(column, whole)))


def _narrow(column: "MarkedColumn") -> int:
    """With its head on several lines, and the gap behind it."""
    return max(map(cell_len, [*column.name.split("_"), *column.texts])) + GAP


def _cells(column: "MarkedColumn", whole: bool) -> list[str]:
    if not whole or not column.intervals:
        return list(column.texts)
    return [text + more for text, more in zip(column.texts, column.intervals, strict=True)]


def _drawn(
    columns: "Sequence[MarkedColumn]", whole: bool, width: int, *, heads_broken: bool = False
) -> str:
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
    for index, column in enumerate(columns):
        head = column.name.replace("_", "\n") if heads_broken else column.name
        side: Literal["left", "right"] = "right" if column.is_number else "left"
        table.add_column(Text(head), justify=side, no_wrap=index > 0, vertical="bottom")
    cells = [_cells(column, whole) for column in columns]
    for row in zip(*cells, strict=True):
        table.add_row(*map(Text, row))
    console = Console(file=StringIO(), width=width, color_system=None)
    with console.capture() as drawn:
        console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in drawn.get().splitlines())


def _table(answer: "pa.Table", rows: list[list[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for field in answer.schema:
        is_number = str(field.type).startswith(("int", "double", "decimal"))
        table.add_column(Text(field.name), justify="right" if is_number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _blocks(names: list[str], rows: list[list[str]]) -> str:
    """Each row as lines of `name  value`, without what is empty."""
    margin = max(map(len, names))
    blocks = [
        "\n".join(
            f"{name:<{margin}}  {cell}" for name, cell in zip(names, row, strict=True) if cell
        )
        for row in rows
    ]
    return "\n\n".join(blocks) + "\n"
