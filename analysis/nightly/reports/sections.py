"""A night as sections: what its Markdown and its page both show, each in its own markup."""

from collections.abc import Sequence
from dataclasses import dataclass

from cudnn_sweep.analysis.nightly.outcome import NightOutcome
from cudnn_sweep.analysis.nightly.reports.grouped import OneChange, one_by_one
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

MOST_ROWS = 100  # of a list or table: a step's summary may have 1 MiB


class Code(str):
    """What users have named, or may type."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """In this order: reasons, changes, notes, and the table `rows` below `head`."""

    title: str
    group: Group | None = None
    """The group of all its changes."""
    reasons: Sequence[str] = ()
    changes: Sequence[OneChange] = ()
    notes: Sequence[Sequence[str]] = ()
    """A paragraph each, in parts."""
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    is_rest: bool = False
    """Only for those who want to know more."""


def sections(
    outcome: NightOutcome, series: Sequence[Series] = (), results: str | None = None
) -> list[Section]:
    """`results` are those that the command line named."""
    changes = one_by_one(finding_texts(outcome))
    found = [
        Section(title=WHY.get(outcome.state, "Reasons"), reasons=outcome.reasons),
        _group("alert", changes, _acceptance(outcome, results)),
        _group("changed", changes),
        _environment(outcome),
        _group("waiting", changes),
        _group("better", changes, is_rest=True),
        _group("refuted", changes, is_rest=True),
        _blunt(outcome, series),
        Section(
            title="The night",
            head=("", ""),
            rows=[(name, Code(value)) for name, value in facts(outcome)],
            is_rest=True,
        ),
    ]
    return [each for each in found if each.reasons or each.changes or each.notes or each.rows]


def details(change: OneChange) -> list[str]:
    """A line each."""
    cells, *known = change.details
    return [Code(cells), *known, Code(change.command)]


def _group(
    group: Group, changes: Sequence[OneChange], *notes: Sequence[str], is_rest: bool = False
) -> Section:
    mine = [each for each in changes if each.group == group]
    return Section(
        title=TITLES[group],
        group=group,
        changes=mine[:MOST_ROWS],
        notes=[*_more(mine), *notes] if mine else (),
        is_rest=is_rest,
    )


def _more(of: Sequence[object]) -> list[Sequence[str]]:
    return [(f"and {len(of) - MOST_ROWS:,} more: the JSON has all.",)] if of[MOST_ROWS:] else []


def _acceptance(outcome: NightOutcome, results: str | None) -> Sequence[str]:
    if not outcome.alerts:
        return ()
    command = how_to_accept(outcome, outcome.alerts[0], results)
    return "To accept a change, from a date on (here the first):", Code(command)


def _environment(outcome: NightOutcome) -> Section:
    notes: list[Sequence[str]] = []
    if outcome.new_baseline:
        notes = [
            (
                "A new baseline starts here, and the nights before do not count:",
                outcome.new_baseline,
            )
        ]
    if not outcome.changes:
        notes.append(("Nothing that is known.",))
    return Section(
        title="What changed since the night before",
        notes=notes,
        head=("part", "before", "now"),
        rows=[(part(each), *map(Code, values(each))) for each in outcome.changes],
    )


def _blunt(outcome: NightOutcome, series: Sequence[Series]) -> Section:
    """Those that a reader would else take for as they were."""
    changed = {finding.key for finding in outcome.findings}
    mine = [
        each
        for each in series
        if each.is_judged and not each.could_show and each.key not in changed
    ]
    return Section(
        title="Could not show the least effect",
        notes=_more(mine),
        head=("cell and settings", "of", "smallest step that it could show"),
        rows=[
            (
                Code(f"{each.key.cell} · {each.key.settings}"),
                meaning(each.key),
                smallest_step(each) or "its words vary",
            )
            for each in mine[:MOST_ROWS]
        ],
        is_rest=True,
    )
