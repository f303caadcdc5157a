"""How far a long command is: a line at a terminal, nothing on a pipe or in a file."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

Row = TypeVar("Row")


@contextmanager
def steps(console: Console, total: int | None = None) -> Iterator[Callable[[str], None]]:
    """A function to call as each step begins, with what it is. Nothing is drawn in between: the step may be timed."""
    if not console.is_terminal:
        yield lambda what: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=40), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=total, completed=-1, visible=False)
        yield lambda what: bar.update(task, description=what, advance=1, visible=True, refresh=True)


def counted(
    console: Console, rows: Iterable[Row], what: str, total: int | None = None
) -> Iterator[Row]:
    """The rows as they come, each a step."""
    with steps(console, total) as begins:
        begins(what)
        for row in rows:
            yield row
            begins(what)
