"""A page that compares results between GPU models or software versions."""

from collections.abc import Mapping
from typing import Any

from cudnn_sweep.analysis.report.pages.page import Entry, Page
from cudnn_sweep.analysis.words import percent

ABOUT = (
    "A verdict (helps, hurts, equivalent or fails) carries over if it is the same on both sides. "
    "Otherwise it is called turned. A direction is known if the interval of the ratio excludes 1. "
    "A choice is the list of kernels that processes of a config ran most often. Shares have 95% "
    "intervals, which are valid only for cells like these."
)
SHARES, TURNED = "shares", "turned verdicts"


def entry(row: Mapping[str, Any]) -> Entry:
    between = {"between": f"{row['of_a']} → {row['of_b']}"}
    if row["cell_id"] is not None:
        counts = f"{row['a']} → {row['b']}"
        facts = between | {"because of": row["why"]}
        return Entry(name=row["cell"], said=counts, group=TURNED, facts=facts)
    ends = f"{percent(row['share_low'])} to {percent(row['share_high'])}"
    counts = f"{row['carried']} of {row['cells']} cells, {percent(row['share'])} ({ends})"
    return Entry(name=row["what"], said=counts, group=SHARES, facts=between)


TRANSFERS = Page(
    name="transfers",
    title="What carries over?",
    about=ABOUT,
    questions=("transfers",),
    noun="finding",
    nothing="No cell was measured on two GPU models or software versions.",
    groups={SHARES: "equivalent", TURNED: "inconclusive"},
    entries=lambda rows, _: list(map(entry, rows)),
)
