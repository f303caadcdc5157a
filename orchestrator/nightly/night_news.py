"""A night as news: the headline, a few lines a change, and the night's JSON."""

import json
import shlex
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from cudnn_sweep.analysis.nightly.outcome import Finding, NightOutcome
from cudnn_sweep.analysis.nightly.reports.as_json import to_json
from cudnn_sweep.analysis.nightly.reports.grouped import OneChange, headline, one_by_one
from cudnn_sweep.analysis.nightly.reports.words import finding_texts, moves, not_measured
from cudnn_sweep.analysis.printable import one_line
from cudnn_sweep.orchestrator.nightly.news import News


@dataclass(frozen=True, kw_only=True, slots=True)
class WhereToLook:
    """What the commands and the link of a message need."""

    folder: Path
    """Where the commands are to be typed."""
    program: str
    results: str
    page: str
    """URL or path of the night's page."""


def news_of(outcome: NightOutcome, fresh: Collection[Finding], where: WhereToLook) -> News:
    """`fresh`: what nobody was told before."""
    changes = [f"Changed since the night before: {moves(outcome.changes)}"]
    told = [each for each in finding_texts(outcome) if each.finding in fresh]
    as_before = [f"{outcome.fine_series:,} series are as they were."] if told else []
    return News(
        headline=headline(outcome, fresh),
        findings=(
            *(_lines(change, where) for change in one_by_one(told)),
            *outcome.reasons,
            *([f"Not measured: {not_measured(outcome)}"] if outcome.skipped else []),
            *([f"A new baseline starts: {outcome.new_baseline}"] if outcome.new_baseline else []),
            *(changes if outcome.changes else []),
            "\n".join([*as_before, f"Page: {where.page}"]),
        ),
        result=json.loads(to_json(outcome)),
    )


def _lines(change: OneChange, where: WhereToLook) -> str:
    there = f"cd {shlex.quote(str(where.folder))} && "
    lines = [change.told, *change.details]
    if change.versions is not None:
        words = [where.program, "compare", *change.versions, "--results", where.results]
        lines.append(f"Which version: {there}{shlex.join(words)}")
    return _joined([*lines, f"Measure again: {there}{change.command}"])


def _joined(lines: list[str]) -> str:
    return "\n".join(one_line(line) for line in lines)
