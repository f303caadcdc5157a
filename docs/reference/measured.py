"""What the pages say that are made from stored results: their paragraphs, and what the results cost."""

from textwrap import fill

from cudnn_sweep.analysis.asking.database import Database

WIDTH = 118
SPENT = """
select coalesce(sum(trials), 0)::bigint as trials, coalesce(sum(seconds), 0) / 60 as minutes
from (
    select count(*) as trials, epoch(max(ended_at)) - epoch(min(started_at)) as seconds
    from records
    where $suite is null or suite = $suite
    group by sweep_id, launch_id, slot
)
"""


def wrapped(text: str) -> str:
    """A paragraph, or an item of a list."""
    indent = "  " if text.startswith("- ") else ""
    return fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def spent(database: Database, suite: str | None = None) -> tuple[int, float]:
    """Trials of a suite, or of all, and their GPU minutes: from the first to the last of each launch on each GPU."""
    (row,) = database.query(SPENT, {"suite": suite}).to_pylist()
    return row["trials"], row["minutes"]
