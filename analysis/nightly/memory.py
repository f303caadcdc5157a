"""What nights remember: what is known of each series, and which of its nights later ones are not compared with.

One series' finding and the thousands of a study follow the same rules (`stays`, `settled`). A change that nobody mended would otherwise become what is usual, and be forgotten.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import IntEnum
from typing import TypeAlias

import numpy as np

from cudnn_sweep.analysis.nightly.gate import FINE_NIGHTS, Mask, Places
from cudnn_sweep.analysis.nightly.history import History
from cudnn_sweep.analysis.nightly.metric import METRIC_OF
from cudnn_sweep.analysis.nightly.outcome import Acceptance, Finding, LeftOut, NightOutcome, Series

Flags: TypeAlias = Mask | bool


class Known(IntEnum):
    """What earlier nights made of a series."""

    NOTHING = 0
    WAITS = 1
    REFUTED = 2
    """So long as the screen shows it, it is not measured again."""
    ALERTS = 3
    """Until it is mended, it is no further alert, and its nights are not compared with."""


KNOWN = {"waiting": Known.WAITS, "refuted": Known.REFUTED, "confirmed": Known.ALERTS}


def stays(known: Places | Known, *, can_tell: Flags, is_mended: Flags, is_opposite: Flags) -> Mask:
    """Though tonight's screen does not show it: what waits, unless the screen shows the opposite; and an alert
    that one fine night has not ended.
    """
    waits_on = np.equal(known, Known.WAITS) & np.logical_not(is_opposite)
    is_over = np.logical_and(can_tell, is_mended)
    found: Mask = waits_on | np.equal(known, Known.ALERTS) & np.logical_not(is_over)
    return found


def settled(
    known: Places | Known,
    is_seen: Flags,
    *,
    is_confirmed: Flags,
    is_refuted: Flags,
    is_given_up: Flags,
) -> Places:
    """What is known after tonight's judgement of what is no alert yet; `is_given_up`: it waited long enough."""
    undecided = np.where(np.equal(known, Known.REFUTED), Known.REFUTED, Known.WAITS)
    undecided = np.where(is_given_up, Known.NOTHING, undecided)
    refuted = np.where(is_seen, Known.REFUTED, Known.NOTHING)
    found: Places = np.where(is_confirmed, Known.ALERTS, np.where(is_refuted, refuted, undecided))
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """What is known of the nights before tonight."""

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
        first = [each.first for each in self.accepted if each.key.series_id == series_id]
        return frozenset(
            place
            for place, point in enumerate(series.points)
            if any(span.covers(point.date) for span in spans)
            or any(point.date < each for each in first)
        )

    def after(self, findings: Sequence[Finding], series: Sequence[Series]) -> tuple[LeftOut, ...]:
        """What to leave out from tomorrow on: `findings` and `series` are tonight's."""
        alerts = {each.key.series_id: each for each in findings if each.is_alert}
        lasting = alerts.keys() | {
            each.key.series_id for each in findings if each.state == "waiting"
        }
        judged = {each.key.series_id: each for each in series if each.is_judged}
        kept = [
            _ended(span, judged[span.key.series_id])
            if span.until is None and span.key.series_id in judged.keys() - lasting
            else span
            for span in self.left_out
        ]
        known = {span.key.series_id for span in kept if span.until is None}
        new = [
            LeftOut(key=each.key, since=each.since, until=None)
            for series_id, each in alerts.items()
            if series_id not in known
        ]
        return (*kept, *new)


def remembered(
    before: NightOutcome | None, accepted: Iterable[Acceptance], tonight: date
) -> Memory:
    """`before`: the last night that measured something; `accepted`: all that ever was, oldest first."""
    holding = {each.key.series_id: each for each in accepted if each.first <= tonight}
    if before is None:
        return Memory(accepted=tuple(holding.values()))

    def is_accepted(one: Finding | LeftOut) -> bool:
        found = holding.get(one.key.series_id)
        return found is not None and one.since <= found.told_on

    findings = [
        each for each in (*before.findings, *before.members) if each.key.metric in METRIC_OF
    ]
    return Memory(
        findings=tuple(each for each in findings if not is_accepted(each)),
        left_out=tuple(span for span in before.left_out if not is_accepted(span)),
        accepted=tuple(holding.values()),
        alerted=frozenset(each.key.series_id for each in before.findings if each.is_alert),
    )


def in_tonights_way(memory: Memory, history: History) -> Memory:
    """Nights whose processes took turns and others do not compare: a change found among the ones ends with
    them, and waits to be found among the others.
    """
    others = [night.date for night in history.nights if night.in_turns != history.tonight.in_turns]
    return replace(
        memory,
        findings=tuple(each for each in memory.findings if each.since not in others),
        left_out=tuple(
            replace(span, until=max(others))
            if span.until is None and span.since in others
            else span
            for span in memory.left_out
        ),
    )


def _ended(span: LeftOut, series: Series) -> LeftOut:
    """With the night before those that were fine."""
    nights = [point.date for point in series.points if point.value is not None]
    last = nights[-1 - FINE_NIGHTS] if len(nights) > FINE_NIGHTS else span.since
    return replace(span, until=max(last, span.since))
