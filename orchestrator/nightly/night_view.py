"""A night on the screen: tables at a wide terminal, a line a finding elsewhere, as in a log."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cudnn_sweep.analysis.nightly.outcome import NightOutcome
from cudnn_sweep.analysis.nightly.reports.as_json import to_json
from cudnn_sweep.analysis.nightly.reports.grouped import headline
from cudnn_sweep.analysis.nightly.reports.words import (
    TITLES,
    WHY,
    FindingText,
    Group,
    acceptances,
    finding_texts,
    how_to_accept,
    machine,
    moves,
    printable,
)
from cudnn_sweep.orchestrator.showing.say import say

WIDE = 150  # columns, from which on a table has room for a finding
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
        say(console, f"{WHY.get(outcome.state, 'Reason')}: {printable(reason)}")
    if outcome.new_baseline:
        say(console, f"A new baseline starts: {outcome.new_baseline}")
    if outcome.changes:
        say(console, f"Changed since the night before: {moves(outcome.changes)}")
    said = [f"Ran on {machine(each)}" for each in outcome.machines]
    for line in (*said, *(f"Accepted: {each}" for each in acceptances(outcome))):
        say(console, line)
    findings = finding_texts(outcome)
    for group in TITLES:
        mine = [each for each in findings if each.group == group]
        if mine:
            _print_group(console, group, mine)
    if outcome.alerts:
        first = how_to_accept(outcome, outcome.alerts[0], results)
        say(console, f"\nTo accept a change, from a date on (here the first): {first}")
    say(console, f"\nReports: {', '.join(map(str, reports))}")


def _print_group(console: Console, group: Group, findings: Sequence[FindingText]) -> None:
    say(console, f"\n{TITLES[group]}", STYLES[group])
    if not console.is_terminal or console.width < WIDE:
        for each in findings:
            say(console, f"{each.line}; {each.command}")
        return
    console.print(_table(findings))
    for number, each in enumerate(findings, 1):
        say(console, f"  {number}  {each.command}")


def _table(findings: Sequence[FindingText]) -> Table:
    """Names come from users: Text is never markup."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("", "cell and settings", "of", "change", "nights", "confirmed", "what moved"):
        table.add_column(name, overflow="fold")
    for number, each in enumerate(findings, 1):
        series = f"{each.series}\n{each.series_id}"
        said = (series, each.metric, each.change, each.nights, each.confirmation, each.moved)
        table.add_row(str(number), *map(Text, said))
    return table
