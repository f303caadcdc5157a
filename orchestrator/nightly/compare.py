"""Compares what was measured tonight with the nights before: the night's outcome, and its series."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from itertools import pairwise

from rich.console import Console

from cudnn_sweep.analysis.nightly.gate import FEWEST_NIGHTS
from cudnn_sweep.analysis.nightly.history import HARDWARE, SOFTWARE, History, changes, read_history
from cudnn_sweep.analysis.nightly.judge import Screened, refuted, screen_all, settle
from cudnn_sweep.analysis.nightly.machines import MACHINE
from cudnn_sweep.analysis.nightly.memory import Memory, in_tonights_way, remembered
from cudnn_sweep.analysis.nightly.outcome import (
    Change,
    Finding,
    NightOutcome,
    NightState,
    Series,
    Version,
)
from cudnn_sweep.analysis.nightly.remeasured import with_walls
from cudnn_sweep.analysis.nightly.shared import share
from cudnn_sweep.orchestrator.nightly.confirm import measure_again
from cudnn_sweep.orchestrator.nightly.request import NightRequest

JUDGED_SHARE = 0.9  # of the series: with fewer a night without alerts is no good news


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    outcome: NightOutcome
    series: tuple[Series, ...]


def compare(
    asked: NightRequest, began: datetime, console: Console, skipped: dict[str, str]
) -> Compared:
    """`skipped`: models that were not measured tonight, and why: none of them is missing."""
    diary = asked.diary()
    first = diary.baseline()
    if first is not None and asked.name.date < first:
        reason = f"{asked.name.date} is before {first}, the pinned night: --unpin, or --pin an earlier one"
        return not_measured(asked, began, (reason,))
    memory = remembered(diary.before(asked.name), diary.accepted(), asked.name.date)
    history = _read(asked, first, skipped)
    if history is None:
        return not_measured(asked, began, ("no trial was recorded tonight",))
    memory = in_tonights_way(memory, history)
    is_pinned = first is not None
    suspected = screen_all(history, memory, is_pinned=is_pinned)
    fresh = measure_again(asked, suspected.candidates, console)
    screened = suspected
    if any(candidate.is_new for candidate in suspected.candidates):
        # fresh trials may have joined tonight's values
        history = _read(asked, first, skipped) or history
        screened = screen_all(history, memory, is_pinned=is_pinned)
    seen = {candidate.key for candidate in screened.candidates}
    gone = [each for each in suspected.candidates if each.key not in seen]
    findings = [
        settle(
            each,
            fresh.get(each.key),
            history,
            is_pinned=is_pinned,
            command=asked.again(each.key.cell_id),
        )
        for each in (*screened.candidates, *(each for each in gone if each.key in fresh))
    ] + [
        refuted(each, history, asked.again(each.key.cell_id))
        for each in gone
        if each.is_new and each.key not in fresh
    ]
    known = [each for each in findings if each]
    beside = with_walls(known, screened.series, fresh, memory, is_pinned=is_pinned)
    compared = _compared(asked, began, history, memory, screened, beside)
    return replace(compared, outcome=replace(compared.outcome, skipped=skipped))


def _read(asked: NightRequest, first: date | None, skipped: dict[str, str]) -> History | None:
    name = asked.name
    found = read_history(asked.store(), name.launch, name.sweep_id, asked.contrasts, first=first)
    if found is None or not skipped:
        return found
    left = [one for one in found.series if not one.key.cell.startswith(tuple(skipped))]
    return replace(found, series=tuple(left))


def not_measured(asked: NightRequest, began: datetime, reasons: Sequence[str]) -> Compared:
    outcome = NightOutcome(
        night=asked.name.sweep_id,
        date=asked.name.date,
        launch_file=str(asked.options.file),
        suite=asked.request.suite_name,
        started_at=began,
        ended_at=datetime.now(UTC),
        planned_trials=0,
        recorded_trials=0,
        state="could_not_tell",
        reasons=tuple(reasons),
        nights=0,
        fine_series=0,
        insufficient_series=0,
        findings=(),
        changes=(),
        new_baseline=None,
        host=socket.gethostname(),
    )
    return Compared(outcome=outcome, series=())


def _compared(
    asked: NightRequest,
    began: datetime,
    history: History,
    memory: Memory,
    screened: Screened,
    findings: list[Finding],
) -> Compared:
    tonight = history.tonight
    told = share(findings, screened.series, asked.again(), memory.alerted)
    alerts = sum(finding.is_alert for finding in told.findings)
    reasons = () if alerts else _reasons(history, screened)
    state: NightState = "regression" if alerts else "could_not_tell" if reasons else "fine"
    if reasons and _comparable(history) < FEWEST_NIGHTS:
        state = "learning"
    outcome = replace(
        not_measured(asked, began, reasons).outcome,
        planned_trials=tonight.planned,
        recorded_trials=tonight.recorded,
        state=state,
        nights=_comparable(history) - 1,
        fine_series=screened.fine,
        blunt_series=screened.blunt,
        insufficient_series=screened.insufficient,
        findings=tuple(sorted(told.findings, key=lambda finding: not finding.is_alert)),
        members=told.members,
        changes=_changes(history),
        new_baseline=_new_baseline(history),
        versions=_versions(history),
        left_out=memory.after(findings, screened.series),
        accepted=memory.accepted,
        machines=history.machines,
    )
    return Compared(outcome=outcome, series=screened.series)


def _comparable(history: History) -> int:
    return max(len(history.comparable(env_hash)) for env_hash in history.tonight.env_hashes)


def _reasons(history: History, screened: Screened) -> tuple[str, ...]:
    """Why most of what was asked could not be judged, and what to do."""
    asked = [series for series in screened.series if series.key.metric != "sign"]
    if sum(series.is_judged for series in asked) >= JUDGED_SHARE * len(asked):
        return ()
    nights, tonight = _comparable(history), history.tonight
    if nights < FEWEST_NIGHTS:
        needed = f"{nights} of the {FEWEST_NIGHTS} nights that a comparison needs"
        return (f"too few nights: {needed}, tonight among them; the next nights bring more",)
    absent = sum(series.points[-1].value is None for series in asked)
    reasons = [f"{len(asked)} series, {absent} without a value tonight"]
    if tonight.is_cut:
        reasons.append(
            f"the time was up after {tonight.reached} of {tonight.planned} trials: "
            "raise budget_minutes, or take a smaller suite"
        )
    return tuple(reasons)


def _changes(history: History) -> tuple[Change, ...]:
    """Since the night before."""
    if len(history.nights) < 2:
        return ()
    before, tonight = history.nights[-2:]
    names = (*HARDWARE, *SOFTWARE, *MACHINE)
    return (*changes(before, tonight, names), *history.edited_tonight())


def _new_baseline(history: History) -> str | None:
    *earlier, tonight = history.nights
    same = [night for night in earlier if night.env_hashes & tonight.env_hashes]
    if not earlier or any(night.in_turns == tonight.in_turns for night in same):
        return None
    if same:
        method = "take turns" if tonight.in_turns else "run one after another"
        return f"processes of a block {method}, unlike in the {len(same)} nights before"
    moved = ", ".join(
        f"{each.part} {each.before} → {each.now}"
        for each in changes(earlier[-1], tonight, HARDWARE)
    )
    return f"other hardware than in the {len(earlier)} nights before: {moved}"


def _versions(history: History) -> tuple[Version, ...]:
    """Each change of software between two nights, on the hardware that has most nights."""
    env_hash = max(history.tonight.env_hashes, key=lambda each: len(history.comparable(each)))
    nights = history.comparable(env_hash)
    return tuple(
        Version(
            date=now.date,
            software_hash=now.software_of(env_hash),
            changes=changes(before, now, SOFTWARE),
        )
        for before, now in pairwise(nights)
        if before.software_of(env_hash) != now.software_of(env_hash)
    )
