"""Prints messages and tables for people, and chooses the console to print on."""

import sys
from collections.abc import Sequence

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from cudnn_sweep.analysis.words import printable

PLAIN_WIDTH = 180  # columns, used if the output is not a terminal


def console_here(*, stderr: bool = False, plain_width: int = PLAIN_WIDTH) -> Console:
    """Return a console. Its width is `plain_width` if stdout is not a terminal."""
    width = None if sys.stdout.isatty() else plain_width
    return Console(width=width, stderr=stderr, markup=False)


def say(console: Console, text: str, style: str = "") -> None:
    """Print `text` without wrapping it. Markup and emoji codes are printed as they are."""
    text = printable(text)
    console.print(text, style=style, markup=False, emoji=False, highlight=False, soft_wrap=True)


def warn(console: Console, text: str) -> None:
    say(console, text, "yellow")


def plain_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = (), gap: int = 2
) -> Table:
    """Return a table without lines between its cells. Columns in `right` are right-aligned."""
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False)
    for column in columns:
        justify: JustifyMethod = "right" if column in right else "left"
        table.add_column(column, justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table
