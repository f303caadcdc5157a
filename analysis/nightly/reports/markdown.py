"""A night as Markdown, for the summary of a CI step or a pull request.

Names come from users: they stand in code spans, in which nothing is markup, a link or a mention.
"""

import re
from collections.abc import Sequence

from cudnn_sweep.analysis.nightly.outcome import NightOutcome
from cudnn_sweep.analysis.nightly.reports.grouped import OneChange, headline, one_by_one
from cudnn_sweep.analysis.nightly.reports.report import NightReport
from cudnn_sweep.analysis.nightly.reports.words import (
    TITLES,
    WHY,
    Group,
    facts,
    finding_texts,
    how_to_accept,
    meaning,
    part,
    smallest_step,
    values,
)
from cudnn_sweep.analysis.nightly.series import Series
from cudnn_sweep.analysis.words import one_line

MOST_ROWS = 100  # of a table: a step's summary may have 1 MiB


def to_markdown(outcome: NightOutcome, series: Sequence[Series] = ()) -> str:
    findings = one_by_one(finding_texts(outcome))
    parts = [
        f"## {_text(headline(outcome))}",
        *_reasons(outcome),
        *_findings("alert", findings),
        *_how_to_accept(outcome),
        *_environment(outcome),
        *_findings("waiting", findings),
        "<details><summary>The rest</summary>",
        *_findings("better", findings),
        *_findings("refuted", findings),
        *_blunt(outcome, series),
        "### The night",
        _table(("", ""), [(_text(name), _code(value)) for name, value in facts(outcome)]),
        "</details>",
    ]
    return "\n\n".join(parts) + "\n"


def _reasons(outcome: NightOutcome) -> list[str]:
    if not outcome.reasons:
        return []
    lines = "\n".join(f"- {_text(why)}" for why in outcome.reasons)
    return [f"### {WHY.get(outcome.state, 'Reasons')}", lines]


def _findings(group: Group, findings: Sequence[OneChange]) -> list[str]:
    mine = [each for each in findings if each.group == group]
    if not mine:
        return []
    lines = "\n".join(line for each in mine[:MOST_ROWS] for line in _told(each))
    return [f"### {TITLES[group]}", lines, *_more(mine)]


def _blunt(outcome: NightOutcome, series: Sequence[Series]) -> list[str]:
    """Those that a reader would else take for as they were."""
    changed = {finding.key for finding in outcome.findings}
    mine = [
        each
        for each in series
        if each.is_judged and not each.could_show and each.key not in changed
    ]
    if not mine:
        return []
    rows = [
        (
            f"{_code(one_line(each.key.cell))}<br>{_code(one_line(each.key.settings))}",
            _text(meaning(each.key)),
            _text(smallest_step(each) or "new words keep coming"),
        )
        for each in mine[:MOST_ROWS]
    ]
    columns = ("cell and settings", "of", "smallest step that it could show")
    return ["### Could not show the least effect", _table(columns, rows), *_more(mine)]


def _more(of: Sequence[object]) -> list[str]:
    return [f"and {len(of) - MOST_ROWS:,} more: the JSON has all."] if of[MOST_ROWS:] else []


def _how_to_accept(outcome: NightOutcome) -> list[str]:
    if not outcome.alerts:
        return []
    first = how_to_accept(outcome, outcome.alerts[0])
    return [f"To accept a change, from a date on (here the first): {_code(first)}"]


def _told(change: OneChange) -> list[str]:
    """Words that are ours as text, what users have named as code."""
    cells, *known = change.details
    said = [_code(cells), *map(_text, known), _code(change.command)]
    return [f"- **{_text(change.told)}**", *(f"  - {each}" for each in said)]


def _environment(outcome: NightOutcome) -> list[str]:
    parts = ["### What changed since the night before"]
    if outcome.new_baseline:
        why = _text(outcome.new_baseline)
        parts.append(f"A new baseline starts here, and the nights before do not count: {why}.")
    rows = [(_text(part(each)), *map(_code, values(each))) for each in outcome.changes]
    return [*parts, _table(("part", "before", "now"), rows) if rows else "Nothing that is known."]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_in_table, line))} |" for line in lines)


def _in_table(cell: str) -> str:
    """There a stroke ends a cell even within code, and backslashes before one must be even."""
    return re.sub(r"(\\*)\|", r"\1\1\\|", cell)


def _code(text: str) -> str:
    text = " ".join(text.split())
    if not text:
        return ""
    pad = " " if "`" in (text[0], text[-1]) else ""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))  # longer than any within
    return f"{fence}{pad}{text}{pad}{fence}"


def _text(text: str) -> str:
    """Text in which nothing is markup."""
    text = " ".join(text.split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]~$])", r"\\\1", text)


REPORT = NightReport(file="night.md", render=to_markdown)
