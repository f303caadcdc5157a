"""A night on the screen."""

from typing import Literal

from rich.console import Console

from cudnn_sweep.analysis.nightly.outcome import NightOutcome
from cudnn_sweep.analysis.nightly.reports.as_json import to_json
from cudnn_sweep.analysis.nightly.reports.words import TITLES, headline, told


def show(outcome: NightOutcome, form: Literal["text", "json"], console: Console) -> None:
    if form == "json":
        print(to_json(outcome), end="")
        return
    lines = [headline(outcome), *outcome.reasons, *filter(None, [outcome.new_baseline])]
    for each in told(outcome):
        lines += [f"{TITLES[each.group]}: {each.line}", f"  {each.finding.command}"]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
