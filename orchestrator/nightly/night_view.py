"""A night on the screen or in a log: each fact once, and below it what is to be known of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from rich.console import Console

from cudnn_sweep.analysis.nightly.outcome import NightOutcome
from cudnn_sweep.analysis.nightly.reports.as_json import to_json
from cudnn_sweep.analysis.nightly.reports.grouped import headline, one_by_one
from cudnn_sweep.analysis.nightly.reports.words import (
    TITLES,
    WHY,
    Group,
    acceptances,
    finding_texts,
    how_to_accept,
    machine,
    moves,
    not_measured,
)
from cudnn_sweep.analysis.printable import one_line
from cudnn_sweep.orchestrator.showing.say import say

STYLES: dict[Group, str] = {
    "alert": "bold red",
    "waiting": "yellow",
    "better": "green",
    "refuted": "dim",
}
STATE_STYLES = {
    "fine": "bold green",
    "learning": "bold cyan",
    "regression": "bold red",
    "could_not_tell": "bold yellow",
}


def show(
    outcome: NightOutcome,
    reports: Sequence[Path],
    form: Literal["text", "json"],
    console: Console,
    results: str | None = None,
) -> None:
    """`results` are those that the command line named."""
    if form == "json":
        print(to_json(outcome), end="")
        return
    say(console, headline(outcome), STATE_STYLES[outcome.state])
    for reason in outcome.reasons:
        say(console, f"{WHY.get(outcome.state, 'Reason')}: {one_line(reason)}")
    if outcome.new_baseline:
        say(console, f"A new baseline starts: {outcome.new_baseline}")
    if outcome.changes:
        say(console, f"Changed since the night before: {moves(outcome.changes)}")
    said = [f"Ran on {machine(each)}" for each in outcome.machines]
    said += [f"Not measured: {not_measured(outcome)}"] if outcome.skipped else []
    for line in (*said, *(f"Accepted: {each}" for each in acceptances(outcome))):
        say(console, line)
    changes = one_by_one(finding_texts(outcome))
    for group in TITLES:
        mine = [change for change in changes if change.group == group]
        if mine:
            say(console, f"\n{TITLES[group]}", STYLES[group])
        for change in mine:
            lines = [change.told, *change.details, change.command]
            say(console, "\n    ".join(map(one_line, lines)))
    if outcome.alerts:
        first = how_to_accept(outcome, outcome.alerts[0], results)
        say(console, f"\nTo accept a change, from a date on (here the first): {first}")
    say(console, f"\nReports: {', '.join(map(str, reports))}")
