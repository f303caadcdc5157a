"""An answer drawn for people: a table, or where that is wider than the terminal, a block a row."""

from io import StringIO
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    import pyarrow as pa


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
