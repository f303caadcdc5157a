"""Decides which changes of a night are confirmed, and builds the night's outcome."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from cudnn_sweep.analysis.nights.candidates import Candidate, Remeasured, Screened, screen_all
from cudnn_sweep.analysis.nights.detect import FEWEST_NIGHTS, RECENT, confirm_by_nights
from cudnn_sweep.analysis.nights.findings import Memory, share
from cudnn_sweep.analysis.nights.history import MACHINE, PHYSICAL, SOFTWARE, WORKLOAD, History
from cudnn_sweep.analysis.nights.outcome import Cause, Finding, NightOutcome, NightState
from cudnn_sweep.analysis.nights.series import (
    BITS,
    ENGINE,
    FAILURE,
    LAUNCH_BOUND,
    LAYOUT,
    METRIC_OF,
    REPEATS,
    SIGN,
    STEADY_DEVICE,
    STEADY_WALL,
    Amount,
    Change,
    Confirmation,
    Series,
    SeriesKey,
    typical,
)

JUDGED_SHARE = 0.9  # least share of series that are judged on a fine night
RARE = (SIGN.name, BITS.name, REPEATS.name, LAYOUT.name)  # metrics that a night may lack
NO_WALL: dict[str, Any] = dict.fromkeys(("wall_ratio", "wall_ratio_low", "wall_ratio_high"))


def compare_night(
    night: NightOutcome,
    history: History,
    memory: Memory,
    measure: Callable[[Sequence[Candidate]], Mapping[SeriesKey, Remeasured]],
    read: Callable[[], History | None],
    again: Callable[[str | None], str],
) -> tuple[NightOutcome, Sequence[Series]]:
    """Compare a measured night with earlier nights. `measure` runs fresh trials of new candidates.
    `read` returns the history with these trials. `again` returns the command that measures a cell
    again, or all cells if its argument is None."""
    suspected = screened = screen_all(history, memory)
    fresh: Mapping[SeriesKey, Remeasured] = {}
    if new := [candidate for candidate in suspected.candidates if candidate.is_new]:
        fresh, history = measure(new), read() or history
        screened = screen_all(history, memory)
    findings = settle_all(suspected, screened, fresh, history, again)
    shared, members = share(findings, screened.series, again(None), memory.alerted)
    reported = _news_apart(shared)
    is_alert = any(finding.is_alert for finding in reported)
    reasons = () if is_alert else _reasons(history, screened)
    nights = len(history.comparable(history.longest))
    changed = {candidate.key for candidate in screened.candidates}
    unchanged = [entry for entry in screened.series if entry.is_judged and entry.key not in changed]
    state: NightState = "regression" if is_alert else "could_not_tell" if reasons else "fine"
    if reasons and nights < FEWEST_NIGHTS:
        state = "learning"
    outcome = replace(
        night,
        ended_at=datetime.now(UTC),
        planned_trials=history.tonight.planned,
        recorded_trials=history.tonight.recorded,
        state=state,
        reasons=reasons,
        nights=nights - 1,
        fine_series=sum(series.could_show for series in unchanged),
        blunt_series=sum(not series.could_show for series in unchanged),
        insufficient_series=sum(not series.is_judged for series in screened.series),
        findings=tuple(sorted(reported, key=lambda finding: not finding.is_alert)),
        members=members,
        changes=history.changes(),
        new_baseline=history.new_baseline(),
        versions=history.versions(),
        left_out=memory.after(findings, screened.series),
        accepted=memory.accepted,
        machines=history.machines,
        gpu_hours=history.gpu_hours,
    )
    return outcome, screened.series


def _reasons(history: History, screened: Screened) -> tuple[str, ...]:
    series = [entry for entry in screened.series if entry.key.metric not in RARE]
    if sum(entry.is_judged for entry in series) >= JUDGED_SHARE * len(series):
        return ()
    nights, tonight = len(history.comparable(history.longest)), history.tonight
    if nights < FEWEST_NIGHTS:
        needed = f"{nights} of the {FEWEST_NIGHTS} nights that a comparison needs"
        return (f"too few nights: {needed}, tonight among them; the next nights bring more",)
    absent = sum(entry.points[-1].value is None for entry in series)
    reasons = [f"too few of {len(series)} series can be judged, {absent} have no value tonight"]
    if tonight.is_cut:
        reasons.append(
            f"the time was up after {tonight.reached} of {tonight.planned} trials: "
            "raise minutes, or take a smaller suite"
        )
    return tuple(reasons)


def settle_all(
    suspected: Screened,
    screened: Screened,
    fresh: Mapping[SeriesKey, Remeasured],
    history: History,
    again: Callable[[str], str],
) -> list[Finding]:
    """Return the findings. `suspected` precedes the fresh trials, and `screened` follows them."""
    shown = {candidate.key for candidate in screened.candidates}
    gone = [candidate for candidate in suspected.candidates if candidate.key not in shown]
    findings = [
        settle(candidate, fresh.get(candidate.key), history, again(candidate.key.cell_id))
        for candidate in (*screened.candidates, *(lost for lost in gone if lost.key in fresh))
    ]
    refuted = Confirmation(state="refuted")
    findings += [
        _finding(candidate, refuted, None, history, again(candidate.key.cell_id))
        for candidate in gone
        if candidate.is_new and candidate.key not in fresh
    ]
    changed = {finding.key for finding in findings if finding.state == "confirmed"}
    series = {entry.key: entry for entry in screened.series if entry.could_show}
    findings = [replace(finding, kernels=_kernels(finding, series)) for finding in findings]
    return [
        replace(finding, **NO_WALL) if finding.key.of(STEADY_WALL) in changed else finding
        for finding in findings
    ]


def _news_apart(findings: Sequence[Finding]) -> list[Finding]:
    """Drop news about kernels or bits if another finding already shows the change of kernels."""
    beside = {finding.key.of(ENGINE) for finding in findings if finding.kernels is not None}
    chosen = beside | {finding.key for finding in findings if finding.key.metric == ENGINE.name}
    kernels = {ENGINE.name: beside, BITS.name: chosen}
    return [
        finding
        for finding in findings
        if not finding.is_news or finding.key.of(ENGINE) not in kernels[finding.key.metric]
    ]


def _kernels(finding: Finding, series: Mapping[SeriesKey, Series]) -> Change | None:
    chosen = series.get(finding.key.of(ENGINE))
    at = chosen.place_of(finding.since) if chosen is not None else None
    if chosen is None or at is None or finding.state != "confirmed":
        return None
    before = [word for word in chosen.words[:at] if word is not None][-RECENT:]
    now = next((word for word in chosen.words[at:] if word is not None), None)
    if finding.key.metric in (ENGINE.name, BITS.name) or not before or now in (None, *before):
        return None
    return Change(part="kernels", before=before[-1], now=str(now))


def settle(
    candidate: Candidate, fresh: Remeasured | None, history: History, command: str
) -> Finding:
    earlier = candidate.earlier
    if candidate.is_news:
        return _finding(candidate, Confirmation(state="confirmed"), None, history, command)
    if fresh is not None and fresh.confirmation.state == "confirmed":
        return _finding(candidate, fresh.confirmation, fresh, history, command)
    judged = _by_nights(candidate, history.is_pinned)
    if earlier is not None and earlier.state == "confirmed":
        if not candidate.is_seen:
            return replace(earlier, key=candidate.key)
        if judged.ratio is None or earlier.blocks:
            return replace(earlier, key=candidate.key, now=candidate.screening.now)
        walls = _walls(candidate, judged, fresh, history)
        return replace(earlier, key=candidate.key, **_amounts(candidate, judged), **walls)
    if earlier is not None and earlier.state == "refuted" and judged.state != "confirmed":
        return replace(earlier, now=candidate.screening.now)
    if fresh is not None and fresh.confirmation.state == "refuted":
        if fresh.of_two is None:
            judged = fresh.confirmation
        elif candidate.since == len(candidate.series.points) - 1:  # this night may be an outlier
            judged = replace(judged, state="undecided")
    if candidate.alert is not None and judged.state != "confirmed":
        return replace(candidate.alert, key=candidate.key)
    return _finding(candidate, judged, fresh, history, command)


def _by_nights(candidate: Candidate, is_pinned: bool) -> Confirmation:
    """Judge a candidate by its nights. A Category stays undecided without fresh trials."""
    metric, since = METRIC_OF[candidate.key.metric], candidate.since
    if not isinstance(metric, Amount):
        return Confirmation(state="undecided")
    numbers = candidate.series.numbers
    before = [n for place, n in enumerate(numbers[:since]) if place not in candidate.left_out]
    level = typical(before)  # None if the baseline was pinned after these nights
    if candidate.direction == "better" and level is not None:  # turn the gain into an equal loss
        numbers = [number and level * level / number for number in numbers]
    return confirm_by_nights(numbers, since, metric, candidate.left_out, is_pinned=is_pinned)


def _finding(
    candidate: Candidate,
    judged: Confirmation,
    fresh: Remeasured | None,
    history: History,
    command: str,
) -> Finding:
    is_of_pairs = fresh is not None and fresh.confirmation is judged
    cause, moved = _cause(candidate, fresh, history)
    is_failure = candidate.key.metric == FAILURE.name
    return Finding(
        key=candidate.key,
        state="waiting" if judged.state == "undecided" else judged.state,
        direction=candidate.direction,
        **_amounts(candidate, judged, is_of_pairs=is_of_pairs),
        **_walls(candidate, judged, fresh, history),
        blocks=judged.blocks if is_of_pairs else 0,
        nights=candidate.screening.nights,
        since=candidate.series.points[candidate.since].date,
        cause=cause,
        moved=moved,
        command=command,
        message=history.failures.get(candidate.key.cell_id) if is_failure else None,
        is_news=candidate.is_news,
    )


def _amounts(
    candidate: Candidate, judged: Confirmation, *, is_of_pairs: bool = False
) -> dict[str, Any]:
    """Return a finding's old and new values, and their ratio with its interval."""
    before, now = candidate.screening.before, candidate.screening.now
    ratio, low, high = judged.ratio, judged.low, judged.high
    if candidate.direction == "better" and ratio and low and high:
        ratio, low, high = 1 / ratio, 1 / high, 1 / low
    if ratio and not is_of_pairs:
        now = typical(candidate.series.numbers[candidate.since :])
        before = now and now / ratio
    sizes = {"ratio": ratio or candidate.screening.ratio, "ratio_low": low, "ratio_high": high}
    return {"before": before, "now": now, **sizes}


def _cause(
    candidate: Candidate, fresh: Remeasured | None, history: History
) -> tuple[Cause, tuple[Change, ...]]:
    earlier, since = candidate.earlier, candidate.series.points[candidate.since].date
    if fresh is None and earlier is not None and earlier.since == since:
        return earlier.cause, earlier.moved
    moved = history.moved(candidate.series, candidate.since)
    if fresh is not None and fresh.of_two is not None:
        if fresh.confirmation.state == "confirmed":
            return "software", fresh.of_two
        pairs = fresh.confirmation  # a Category has no interval
        if pairs.state != "refuted" or (pairs.low is not None and pairs.low > 1):
            return "unknown", moved  # software may be part of the cause
        moved = tuple(change for change in moved if change.part in (WORKLOAD, *MACHINE))
    parts = {change.part for change in moved}
    is_machine = not parts.isdisjoint(PHYSICAL)
    if not parts.isdisjoint((*SOFTWARE, WORKLOAD)):
        return ("unknown" if is_machine else "software"), moved
    old, new = history.workload_change(candidate.key, candidate.since)
    is_unexplained = not parts.issubset(MACHINE) or bool(old and not new)
    return ("unknown" if is_unexplained and not is_machine else "hardware"), moved


def _walls(
    candidate: Candidate, judged: Confirmation, fresh: Remeasured | None, history: History
) -> dict[str, Any]:
    """Return the `wall_ratio` fields of a finding. They are empty if the loop is not CPU-bound."""
    device, key = candidate.series, candidate.key.of(STEADY_WALL)
    wall = next((entry for entry in history.series if entry.key == key), None)
    if device.key.metric != STEADY_DEVICE.name or wall is None or judged.ratio is None:
        return {}
    pairs = list(zip(wall.numbers, device.numbers, strict=True))
    both = [(w, d) for w, d in pairs if w is not None and d is not None]
    if not both or both[-1][0] <= LAUNCH_BOUND * both[-1][1]:
        return {}
    if fresh is not None and fresh.confirmation is judged:
        of_wall = fresh.wall
    else:
        walls = [None if d is None else w for w, d in pairs]
        of_wall = confirm_by_nights(
            walls, candidate.since, STEADY_WALL, candidate.left_out, is_pinned=history.is_pinned
        )
    if of_wall is None or of_wall.low is None:
        return {}
    ends = {"wall_ratio_low": of_wall.low, "wall_ratio_high": of_wall.high}
    return {"wall_ratio": of_wall.ratio, **ends}
