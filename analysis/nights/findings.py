"""Remembers findings from night to night. If most series on a GPU change by a similar ratio, one
shared finding replaces their findings."""

from bisect import bisect
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import compress
from statistics import median, mode

import numpy as np

from cudnn_sweep.analysis.nights.detect import RECENT
from cudnn_sweep.analysis.nights.history import History
from cudnn_sweep.analysis.nights.outcome import Acceptance, Finding, LeftOut, NightOutcome
from cudnn_sweep.analysis.nights.series import (
    FINE_NIGHTS,
    METRIC_OF,
    Amount,
    Array,
    Mask,
    NightPoint,
    Places,
    Series,
    SeriesKey,
)

SHARED = "shared"  # metric of a finding that replaces many findings
FEWEST_SERIES = 5  # least number of alike series of a metric
FEWEST_CELLS = 3  # least number of cells with alike series
ALIKE = 0.5  # alike changes are within this share of the typical change, or the least effect
MOST = 0.5  # more than this share of a machine's series must be alike
NIGHTS_APART = 1  # most nights between the starts of alerts that began together


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    findings: tuple[Finding, ...] = ()
    """Findings of the last measured night that still apply. Members replace shared findings."""
    left_out: tuple[LeftOut, ...] = ()
    accepted: tuple[Acceptance, ...] = ()
    """The newest acceptance of each series that applies tonight."""
    alerted: frozenset[str] = frozenset()
    """The series_id of each alert of the last measured night."""

    def nights_left_out(self, series: Series) -> frozenset[int]:
        series_id = series.key.series_id
        spans = [span for span in self.left_out if span.key.series_id == series_id]
        accepted = [change.first for change in self.accepted if change.key.series_id == series_id]
        first = max(accepted, default=date.min)
        return frozenset(
            place
            for place, point in enumerate(series.points)
            if point.date < first or any(span.covers(point.date) for span in spans)
        )

    def after(self, findings: Sequence[Finding], series: Sequence[Series]) -> tuple[LeftOut, ...]:
        """Return the spans that later nights leave out."""
        alerts = {finding.key.series_id: finding for finding in findings if finding.is_alert}
        judged = {entry.key.series_id: entry for entry in series if entry.is_judged}
        over = {name: entry for name, entry in judged.items() if name not in alerts}
        kept = [_ended(span, over.get(span.key.series_id)) for span in self.left_out]
        lasting = {span.key.series_id for span in kept if span.until is None}
        new = [alert for series_id, alert in alerts.items() if series_id not in lasting]
        return (*kept, *(LeftOut(key=alert.key, since=alert.since, until=None) for alert in new))


def remembered(
    before: NightOutcome | None, accepted: Iterable[Acceptance], history: History
) -> Memory:
    """Return tonight's memory. `before` is the last measured night. `accepted` is oldest first."""
    tonight = history.tonight
    holding = {change.key.series_id: change for change in accepted if change.first <= tonight.date}
    if before is None:
        return Memory(accepted=tuple(holding.values()))
    unlike = {night.date for night in history.nights if night.in_turns != tonight.in_turns}

    def is_open(span: Finding | LeftOut) -> bool:
        acceptance = holding.get(span.key.series_id)
        return acceptance is None or span.since > acceptance.told_on

    findings = [finding for finding in (*before.findings, *before.members) if not finding.is_news]
    spans = [
        replace(span, until=max(unlike)) if span.until is None and span.since in unlike else span
        for span in before.left_out
    ]
    return Memory(
        findings=tuple(
            finding
            for finding in findings
            if finding.key.metric in METRIC_OF and is_open(finding) and finding.since not in unlike
        ),
        left_out=tuple(filter(is_open, spans)),
        accepted=tuple(holding.values()),
        alerted=frozenset(alert.key.series_id for alert in before.alerts),
    )


def _ended(span: LeftOut, series: Series | None) -> LeftOut:
    """End an open span at the last bad night of `series`. If `series` is None, keep the span."""
    if span.until is not None or series is None:
        return span
    nights = [point.date for point in series.points if point.value is not None]
    last = nights[-1 - FINE_NIGHTS] if len(nights) > FINE_NIGHTS else span.since
    return replace(span, until=max(last, span.since))


def share(
    findings: Sequence[Finding],
    series: Sequence[Series],
    command: str,
    alerted: Collection[str] = (),
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Return the findings to report, and the members that shared findings replace. `command`
    measures all series again. `alerted` has the series_id of each alert of last night."""
    by_key = {entry.key: entry for entry in series if entry.is_judged}
    nights = sorted({point.date for entry in by_key.values() for point in entry.points})
    by_place: dict[SeriesKey, list[Finding]] = {}
    for finding in findings:
        if (place := _place(finding, by_key)) is not None:
            by_place.setdefault(place, []).append(finding)
    reported, members = list(findings), []
    for place, there in by_place.items():
        here = [entry for entry in by_key.values() if _ran_on(entry, place)]
        for mine in _begun_together(there, nights, alerted):
            alike = _alike_of_most(mine, here)
            others = [finding for finding in mine if finding not in alike]
            alike += [finding for finding in others if _ends(finding, by_key[finding.key])]
            is_confirmed = _is_confirmed(alike, alerted)
            if not is_confirmed:
                alike = [finding for finding in alike if finding.key.series_id not in alerted]
            if alike:
                of = len(_of_metrics(alike, here))
                joint = _joint(place, alike, of, command, is_confirmed=is_confirmed)
                reported = [joint, *(finding for finding in reported if finding not in alike)]
                members += [replace(finding, shared=joint.key.series_id) for finding in alike]
    return tuple(replace(finding, shared=None) for finding in reported), tuple(members)


def begun_with_most(since: Places, most: int, is_alone: Mask, *, may_creep: bool) -> Mask:
    """Return which findings began near `most`, the most common first night. `since` has each
    finding's first night. `is_alone` marks the single alerts of last night. If `may_creep`, the
    other findings may begin one after another, over many nights."""
    is_near: Mask = abs(since - most) <= np.where(is_alone, NIGHTS_APART, RECENT)
    if may_creep:
        nights = np.unique(since[is_near | ~is_alone])
        in_a_row = np.split(nights, np.flatnonzero(np.diff(nights) > RECENT) + 1)
        run = next(run for run in in_a_row if most in run)
        is_near |= ~is_alone & np.isin(since, run)
    return is_near


def _begun_together(
    findings: Sequence[Finding], nights: Sequence[date], alerted: Collection[str]
) -> list[list[Finding]]:
    """Group findings by their first night and by what changed then."""
    groups, left = [], list(findings)
    while left:
        most, _, moved = mode((e.since, e.cause, e.moved) for e in left)
        mine = [finding for finding in left if finding.moved in (moved, ())]
        since = np.array([bisect(nights, finding.since) for finding in mine])
        alone = np.array([finding.key.series_id in alerted for finding in mine])
        with_most = begun_with_most(since, bisect(nights, most), alone, may_creep=not moved)
        groups.append(list(compress(mine, with_most)))
        left = [finding for finding in left if finding not in groups[-1]]
    return groups


def _is_confirmed(members: Sequence[Finding], alerted: Collection[str]) -> bool:
    """Return whether most members are confirmed, or one member of last night's shared alert is."""
    confirmed = [finding.shared for finding in members if finding.state == "confirmed"]
    return 2 * len(confirmed) > len(members) or not set(confirmed).isdisjoint(alerted)


def are_alike(log_ratios: Array, min_effect: float) -> Mask:
    typical = float(np.median(log_ratios))
    most = max(ALIKE * abs(typical), np.log1p(min_effect))
    return np.asarray(abs(log_ratios - typical) <= most)


def are_most(count: int, of: int) -> bool:
    return count >= FEWEST_SERIES and count > MOST * of


def _place(finding: Finding, by_key: Mapping[SeriesKey, Series]) -> SeriesKey | None:
    """Return the key of the shared finding that may replace `finding`, or None if none may."""
    metric, series = METRIC_OF.get(finding.key.metric), by_key.get(finding.key)
    is_time = isinstance(metric, Amount) and metric.unit == "ms"
    if series is None or not is_time or finding.state == "refuted" or finding.ratio is None:
        return None
    shown = [point for point in series.points if _shows(point, finding)]
    machine = _machine((shown or series.points)[-1])
    if machine is None:
        return None
    settings = f"most series {finding.direction}"
    return replace(finding.key, metric=SHARED, cell_id=machine, cell=machine, settings=settings)


def _ends(finding: Finding, series: Series) -> bool:
    """Return whether `finding` was part of a shared finding and a recent night lacks the change."""
    lately = [point for point in series.points if point.value is not None][-FINE_NIGHTS:]
    return finding.shared is not None and not all(_shows(point, finding) for point in lately)


def _shows(point: NightPoint, finding: Finding) -> bool:
    """Return whether the value is nearer to the finding's new value than to its old value."""
    before, ratio = finding.before, finding.ratio
    if point.date < finding.since or not isinstance(point.value, float):
        return False
    if not isinstance(before, float) or ratio is None:
        return True
    half: float = ratio**0.5 * before
    return (point.value > half) == (ratio > 1)


def _machine(point: NightPoint) -> str | None:
    if point.gpu_uuid is None:
        return None
    return f"{point.gpu_uuid} on {point.host}" if point.host else point.gpu_uuid


def _ran_on(series: Series, place: SeriesKey) -> bool:
    recent = {_machine(point) for point in series.points[-3:]}
    return series.key.env_hash == place.env_hash and place.cell_id in recent


def _alike_of_most(findings: Sequence[Finding], here: Sequence[Series]) -> list[Finding]:
    """Return the findings with similar ratios, of each metric in which most series changed."""
    members: list[Finding] = []
    for name in dict.fromkeys(finding.key.metric for finding in findings):
        mine = [finding for finding in findings if finding.key.metric == name]
        metric = METRIC_OF[name]
        assert isinstance(metric, Amount)
        logs = np.log([finding.ratio or 1.0 for finding in mine])
        alike = list(compress(mine, are_alike(logs, metric.min_effect)))
        cells = {finding.key.cell_id for finding in alike}
        if are_most(len(alike), len(_of_metrics(alike, here))) and len(cells) >= FEWEST_CELLS:
            members += alike
    return members


def _of_metrics(findings: Iterable[Finding], here: Sequence[Series]) -> list[Series]:
    names = {finding.key.metric for finding in findings}
    return [entry for entry in here if entry.key.metric in names]


def _joint(
    place: SeriesKey, members: Sequence[Finding], of: int, command: str, *, is_confirmed: bool
) -> Finding:
    typical = [member for member in members if member.state == "confirmed" or not is_confirmed]
    walls = [member.wall_ratio for member in typical if member.wall_ratio is not None]
    cause, moved = mode((member.cause, member.moved) for member in typical)
    return Finding(
        key=place,
        state="confirmed" if is_confirmed else "waiting",
        direction=members[0].direction,
        before="none",
        now=f"{len(members):,} of {of:,} times",
        ratio=median(member.ratio for member in typical if member.ratio is not None),
        ratio_low=None,
        ratio_high=None,
        wall_ratio=median(walls) if len(walls) == len(typical) else None,
        blocks=min(member.blocks for member in typical),
        nights=min(member.nights for member in typical),
        since=mode(member.since for member in typical),
        cause=cause,
        moved=moved,
        command=command,
    )
