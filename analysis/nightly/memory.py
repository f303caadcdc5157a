"""What nights remember: the state of each finding, and which nights later ones are not compared with.

One series' finding and the thousands of a study follow the same rules (`stays`, `settled`). Without memory a change
that nobody mended would become what is usual.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import IntEnum
from typing import TypeAlias

import numpy as np

from cudnn_sweep.analysis.nightly.history import History
from cudnn_sweep.analysis.nightly.outcome import Acceptance, Finding, LeftOut, NightOutcome
from cudnn_sweep.analysis.nightly.series import FINE_NIGHTS, METRIC_OF, Mask, Places, Series

Flags: TypeAlias = Mask | bool


class FindingState(IntEnum):
    """The state of a series' finding after the night before."""

    NONE = 0
    WAITING = 1
    REFUTED = 2
    """So long as the screen shows it, it is not measured again."""
    CONFIRMED = 3
    """Until it is mended, it is no further alert, and its nights are not compared with."""

    @classmethod
    def of(cls, finding: Finding | None) -> "FindingState":
        return cls.NONE if finding is None else cls[finding.state.upper()]


def stays(
    state: Places | FindingState, *, can_tell: Flags, is_mended: Flags, is_opposite: Flags
) -> Mask:
    """Which findings stay though tonight's screen does not show them: those that wait, unless the screen shows the
    opposite, and alerts, unless they are mended.
    """
    waits_on = np.equal(state, FindingState.WAITING) & np.logical_not(is_opposite)
    is_over = np.logical_and(can_tell, is_mended)
    return np.asarray(
        waits_on | np.equal(state, FindingState.CONFIRMED) & np.logical_not(is_over), dtype=bool
    )


def settled(
    state: Places | FindingState,
    is_seen: Flags,
    *,
    is_confirmed: Flags,
    is_refuted: Flags,
    is_given_up: Flags,
) -> Places:
    """The states after tonight's judgement of what is no alert yet; `is_given_up`: it waited long enough."""
    undecided = np.where(
        np.equal(state, FindingState.REFUTED), FindingState.REFUTED, FindingState.WAITING
    )
    undecided = np.where(is_given_up, FindingState.NONE, undecided)
    refuted = np.where(is_seen, FindingState.REFUTED, FindingState.NONE)
    return np.where(is_confirmed, FindingState.CONFIRMED, np.where(is_refuted, refuted, undecided))


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """What the nights before leave to tonight."""

    findings: tuple[Finding, ...] = ()
    """The findings of the night before."""
    left_out: tuple[LeftOut, ...] = ()
    accepted: tuple[Acceptance, ...] = ()
    """The last acceptance of each series, of those that hold tonight."""
    alerted: frozenset[str] = frozenset()
    """The series_id of each alert of the night before, without those that another stood for."""

    def nights_left_out(self, series: Series) -> frozenset[int]:
        """Indices of the series' points that are left out."""
        series_id = series.key.series_id
        spans = [each for each in self.left_out if each.key.series_id == series_id]
        first = max(
            (each.first for each in self.accepted if each.key.series_id == series_id),
            default=date.min,
        )
        return frozenset(
            place
            for place, point in enumerate(series.points)
            if point.date < first or any(span.covers(point.date) for span in spans)
        )

    def after(self, findings: Sequence[Finding], series: Sequence[Series]) -> tuple[LeftOut, ...]:
        """What to leave out from tomorrow on: `findings` and `series` are tonight's."""
        alerts = {each.key.series_id: each for each in findings if each.is_alert}
        lasting = alerts.keys() | {
            each.key.series_id for each in findings if each.state == "waiting"
        }
        over = {
            each.key.series_id: each
            for each in series
            if each.is_judged and each.key.series_id not in lasting
        }
        kept = [
            _ended(span, over[span.key.series_id])
            if span.until is None and span.key.series_id in over
            else span
            for span in self.left_out
        ]
        lasting_spans = {span.key.series_id for span in kept if span.until is None}
        new = [
            LeftOut(key=each.key, since=each.since, until=None)
            for series_id, each in alerts.items()
            if series_id not in lasting_spans
        ]
        return (*kept, *new)


def remembered(
    before: NightOutcome | None, accepted: Iterable[Acceptance], history: History
) -> Memory:
    """`before`: the last night that measured something; `accepted`: all that ever was, oldest first."""
    tonight = history.tonight
    holding = {each.key.series_id: each for each in accepted if each.first <= tonight.date}
    if before is None:
        return Memory(accepted=tuple(holding.values()))
    others = {night.date for night in history.nights if night.in_turns != tonight.in_turns}

    def is_open(one: Finding | LeftOut) -> bool:
        acceptance = holding.get(one.key.series_id)
        return acceptance is None or one.since > acceptance.told_on

    findings = [each for each in (*before.findings, *before.members) if not each.is_news]
    spans = [
        replace(span, until=max(others)) if span.until is None and span.since in others else span
        for span in before.left_out
    ]
    return Memory(
        findings=tuple(
            each
            for each in findings
            if each.key.metric in METRIC_OF and is_open(each) and each.since not in others
        ),
        left_out=tuple(filter(is_open, spans)),
        accepted=tuple(holding.values()),
        alerted=frozenset(each.key.series_id for each in before.findings if each.is_alert),
    )


def _ended(span: LeftOut, series: Series) -> LeftOut:
    nights = [point.date for point in series.points if point.value is not None]
    last = nights[-1 - FINE_NIGHTS] if len(nights) > FINE_NIGHTS else span.since
    return replace(span, until=max(last, span.since))
