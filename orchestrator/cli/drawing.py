"""An answer drawn for people.

All columns: a table, or where that is wider than the terminal, a block a row. The marked ones: always a table,
a row on a line if the terminal is wide enough for the cells' names.
"""

from collections.abc import Sequence
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

    from cudnn_sweep.analysis.marked import MarkedColumn

LEAST_NAME = 24  # columns of a terminal that names get at least, on several lines if need be
GAP = 2  # between two columns


def draw(answer: "pa.Table", width: int | None) -> str:
    """Text at most `width` wide; None: as wide as it needs."""
    from cudnn_sweep.analysis.formats import plain_rows, readable
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
    """Where they do not fit, intervals go first, then heads and names get more lines, and then columns."""
    if not columns or not columns[0].texts:
        return ""
    for whole in (True, False):
        needed = sum(_wide(column, whole) + GAP for column in columns)
        if width is None or needed <= width:
            return _drawn(columns, whole, needed)
    assert width is not None
    while len(columns) > 1 and _narrow(columns) > width:
        columns = columns[:-1]
    return _drawn(columns, False, width, heads_broken=True)


def _wide(column: "MarkedColumn", whole: bool) -> int:
    return max(cell_len(text) for text in (column.name, *_cells(column, whole)))


def _narrow(columns: "Sequence[MarkedColumn]") -> int:
    """With heads on several lines, and names too."""
    widths = [
        max(map(cell_len, [*column.name.split("_"), *column.texts])) + GAP for column in columns
    ]
    return sum(
        min(width, LEAST_NAME) if index == 0 else width for index, width in enumerate(widths)
    )


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
