"""Findings from night to night and beside each other: what nights remember of them, and which are one.

Without memory a change that nobody mended would become what is usual. If most series of one GPU move alike, that is one
finding, not a hundred: it is the GPU, its host, or what all of them share.
"""

from bisect import bisect
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from statistics import median

import numpy as np

from cudnn_sweep.analysis.nightly.detect import RECENT
from cudnn_sweep.analysis.nightly.history import History
from cudnn_sweep.analysis.nightly.outcome import Acceptance, Finding, LeftOut, NightOutcome
from cudnn_sweep.analysis.nightly.series import (
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

SHARED = "shared"  # the metric of such a finding
FEWEST_SERIES = 5  # of one metric: of fewer, most are soon alike by chance
FEWEST_CELLS = 3  # configs of one cell have more in common than their GPU
ALIKE = 0.5  # of the typical change, or the least effect: how far apart they may be
MOST = 0.5  # of a metric's series there
NIGHTS_APART = 1  # of what began together; RECENT, by noise, where it was no alert of its own


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
        over = {
            each.key.series_id: each
            for each in series
            if each.is_judged and each.key.series_id not in alerts
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


# --- Many as one ---


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """Where a series was worse, or better, the last time."""

    env_hash: str
    gpu: str
    machine: str
    direction: str


def share(
    findings: Sequence[Finding],
    series: Sequence[Series],
    command: str,
    alerted: Collection[str] = (),
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """The findings to report, each of which stands for itself or for many; and those that one of them stands for.

    `series`: all of the night; `command` measures all of them again; `alerted`: the series_id of each alert of the
    night before. What is confirmed waits as long as most of those that began with it do, unless it was alerted before.
    """
    known = {one.key: one for one in series if one.is_judged}
    nights = sorted({point.date for one in known.values() for point in one.points})
    by_place: dict[_Place, list[Finding]] = {}
    for finding in findings:
        place = _place(finding, known)
        if place is not None:
            by_place.setdefault(place, []).append(finding)
    told, members = list(findings), []
    for place, there in by_place.items():
        here = [one for one in known.values() if _ran_on(one, place)]
        for mine in _begun_together(there, nights, alerted):
            alike = _alike_of_most(mine, here)
            alike += [each for each in mine if each not in alike and _ends(each, known[each.key])]
            is_confirmed = _is_confirmed(alike, alerted)
            if not is_confirmed:
                alike = [each for each in alike if each.key.series_id not in alerted]
            if alike:
                one = _one(place, alike, _of_metrics(alike, here), command, is_confirmed)
                told = [one, *(each for each in told if each not in alike)]
                members += [replace(each, shared=one.key.series_id) for each in alike]
    return tuple(replace(each, shared=None) for each in told), tuple(members)


def begun_with_most(since: Places, most: int, is_alone: Mask, *, may_creep: bool) -> Mask:
    """Which began when `most` did, all as the number of a night. What was an alert of its own before,
    `is_alone`, is another change unless it began right then; what creeps begins over many nights in a row.
    """
    found: Mask = abs(since - most) <= np.where(is_alone, NIGHTS_APART, RECENT)
    if may_creep:
        nights = np.unique(since[found | ~is_alone])
        in_a_row = np.split(nights, np.flatnonzero(np.diff(nights) > RECENT) + 1)
        run = next(run for run in in_a_row if most in run)
        found |= ~is_alone & np.isin(since, run)
    return found


def _begun_together(
    findings: Sequence[Finding], nights: Sequence[date], alerted: Collection[str]
) -> list[list[Finding]]:
    """Those of one cause that began together, where most began first."""
    groups, left = [], list(findings)
    while left:
        (most, _, moved), _ = Counter((e.since, e.cause, e.moved) for e in left).most_common(1)[0]
        mine = [each for each in left if each.moved in (moved, ())]
        since = np.array([bisect(nights, each.since) for each in mine])
        alone = np.array([each.key.series_id in alerted for each in mine])
        with_most = begun_with_most(since, bisect(nights, most), alone, may_creep=not moved)
        groups.append([each for each, is_so in zip(mine, with_most, strict=True) if is_so])
        left = [each for each in left if each not in groups[-1]]
    return groups


def _is_confirmed(members: Sequence[Finding], alerted: Collection[str]) -> bool:
    """Most of them are, or were when they were told; more that wait do not undo that."""
    confirmed = [each for each in members if each.state == "confirmed"]
    return 2 * len(confirmed) > len(members) or any(each.shared in alerted for each in confirmed)


def are_alike(log_ratios: Array, min_effect: float) -> Mask:
    """Which of them are about as large as the typical one."""
    typical = float(np.median(log_ratios))
    found: Mask = abs(log_ratios - typical) <= max(ALIKE * abs(typical), np.log1p(min_effect))
    return found


def are_most(count: int, of: int) -> bool:
    return count >= FEWEST_SERIES and count > MOST * of


def _place(finding: Finding, known: Mapping[SeriesKey, Series]) -> _Place | None:
    """None where it is no time, was refuted, or its machine is not known."""
    metric, series = METRIC_OF.get(finding.key.metric), known.get(finding.key)
    is_time = isinstance(metric, Amount) and metric.unit == "ms"
    if series is None or not is_time or finding.state == "refuted" or finding.ratio is None:
        return None
    machine = _machine(_last_shown(finding, series))
    key = finding.key
    if machine is None:
        return None
    return _Place(env_hash=key.env_hash, gpu=key.gpu, machine=machine, direction=finding.direction)


def _last_shown(finding: Finding, series: Series) -> NightPoint:
    """The last night that shows it: tonight may be the first fine one again."""
    shown = [point for point in series.points if _shows(point, finding)]
    return shown[-1] if shown else series.points[-1]


def _ends(finding: Finding, series: Series) -> bool:
    """One that moved with most, and is about to end as they did: its last nights do not all show it."""
    lately = [point for point in series.points if point.value is not None][-FINE_NIGHTS:]
    return finding.shared is not None and not all(_shows(point, finding) for point in lately)


def _shows(point: NightPoint, finding: Finding) -> bool:
    """It is nearer to what the series became than to what it was."""
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


def _ran_on(series: Series, place: _Place) -> bool:
    recent = {_machine(point) for point in series.points[-3:]}
    return series.key.env_hash == place.env_hash and place.machine in recent


def _alike_of_most(findings: Sequence[Finding], here: Sequence[Series]) -> list[Finding]:
    """The findings of each metric that are alike, where they are most of its series."""
    found: list[Finding] = []
    for name in {each.key.metric for each in findings}:
        mine = [each for each in findings if each.key.metric == name]
        metric = METRIC_OF[name]
        assert isinstance(metric, Amount)
        logs = np.log([each.ratio or 1.0 for each in mine])
        is_alike = are_alike(logs, metric.min_effect)
        alike = [each for each, is_so in zip(mine, is_alike, strict=True) if is_so]
        cells = {each.key.cell_id for each in alike}
        if are_most(len(alike), len(_of_metrics(alike, here))) and len(cells) >= FEWEST_CELLS:
            found += alike
    return found


def _of_metrics(findings: Iterable[Finding], here: Sequence[Series]) -> list[Series]:
    names = {each.key.metric for each in findings}
    return [one for one in here if one.key.metric in names]


def _one(
    place: _Place,
    members: Sequence[Finding],
    of: Sequence[Series],
    command: str,
    is_confirmed: bool,
) -> Finding:
    """What it stands for is in the words before and now."""
    typical = [each for each in members if each.state == "confirmed" or not is_confirmed]
    walls = [each.wall_ratio for each in typical if each.wall_ratio is not None]
    cause, moved = Counter((each.cause, each.moved) for each in typical).most_common(1)[0][0]
    return Finding(
        key=SeriesKey(
            metric=SHARED,
            env_hash=place.env_hash,
            gpu=place.gpu,
            cell_id=place.machine,
            cell=place.machine,
            settings=f"most series {place.direction}",
        ),
        state="confirmed" if is_confirmed else "waiting",
        direction=members[0].direction,
        before="none",
        now=f"{len(members):,} of {len(of):,} times",
        ratio=median(each.ratio for each in typical if each.ratio is not None),
        ratio_low=None,
        ratio_high=None,
        wall_ratio=median(walls) if len(walls) == len(typical) else None,
        blocks=min(each.blocks for each in typical),
        nights=min(each.nights for each in typical),
        since=Counter(each.since for each in typical).most_common(1)[0][0],
        cause=cause,
        moved=moved,
        command=command,
    )
