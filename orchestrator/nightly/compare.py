"""Compares what was measured tonight with the nights before: the night's outcome, and its series."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TypeAlias

from rich.console import Console

from cudnn_sweep.analysis.nightly.detect import FEWEST_NIGHTS, Screened, screen_all
from cudnn_sweep.analysis.nightly.history import History, read_history
from cudnn_sweep.analysis.nightly.memory import remembered
from cudnn_sweep.analysis.nightly.outcome import NightOutcome, NightState
from cudnn_sweep.analysis.nightly.series import Series
from cudnn_sweep.analysis.nightly.settle import settle_all
from cudnn_sweep.analysis.nightly.shared import share
from cudnn_sweep.orchestrator.nightly.confirm import measure_again
from cudnn_sweep.orchestrator.nightly.request import NightRequest

JUDGED_SHARE = 0.9  # of the series: with fewer a night without alerts is no good news


Compared: TypeAlias = tuple[NightOutcome, Sequence[Series]]


def compare(
    night: NightRequest, began: datetime, console: Console, skipped: dict[str, str]
) -> Compared:
    """`skipped`: models that were not measured tonight, and why: none of them is missing."""
    diary = night.diary()
    first = diary.baseline()
    if first is not None and night.name.date < first:
        reason = f"{night.name.date} is before {first}, the pinned night: --unpin, or --pin an earlier one"
        return not_measured(night, began, (reason,))
    history = _read(night, first, skipped)
    if history is None:
        return not_measured(night, began, ("no trial was recorded tonight",))
    memory = remembered(diary.before(night.name), diary.accepted(), history)
    suspected = screened = screen_all(history, memory)
    fresh = measure_again(night, suspected.candidates, console)
    if any(candidate.is_new for candidate in suspected.candidates):
        # fresh trials may have joined tonight's values
        history = _read(night, first, skipped) or history
        screened = screen_all(history, memory)
    findings = settle_all(suspected, screened, fresh, history, night.again)
    shared = share(findings, screened.series, night.again(), memory.alerted)
    is_alert = any(finding.is_alert for finding in shared.findings)
    reasons = () if is_alert else _reasons(history, screened)
    nights, unchanged = len(history.comparable(history.longest)), screened.unchanged
    state: NightState = "regression" if is_alert else "could_not_tell" if reasons else "fine"
    if reasons and nights < FEWEST_NIGHTS:
        state = "learning"
    outcome = replace(
        not_measured(night, began, reasons)[0],
        planned_trials=history.tonight.planned,
        recorded_trials=history.tonight.recorded,
        state=state,
        nights=nights - 1,
        fine_series=sum(series.could_show for series in unchanged),
        blunt_series=sum(not series.could_show for series in unchanged),
        insufficient_series=sum(not series.is_judged for series in screened.series),
        findings=tuple(sorted(shared.findings, key=lambda finding: not finding.is_alert)),
        members=shared.members,
        changes=history.changes(),
        new_baseline=history.new_baseline(),
        versions=history.versions(),
        left_out=memory.after(findings, screened.series),
        accepted=memory.accepted,
        machines=history.machines,
        skipped=skipped,
    )
    return outcome, screened.series


def series_of(night: NightRequest, skipped: dict[str, str]) -> Sequence[Series]:
    """The night's series, where it was compared elsewhere."""
    diary = night.diary()
    history = _read(night, diary.baseline(), skipped)
    if history is None:
        return ()
    memory = remembered(diary.before(night.name), diary.accepted(), history)
    return screen_all(history, memory).series


def _read(night: NightRequest, first: date | None, skipped: dict[str, str]) -> History | None:
    name = night.name
    history = read_history(night.store(), name.launch, name.sweep_id, night.contrasts, first=first)
    if history is None or not skipped:
        return history
    left = [one for one in history.series if not one.key.cell.startswith(tuple(skipped))]
    return replace(history, series=tuple(left))


def not_measured(night: NightRequest, began: datetime, reasons: Sequence[str]) -> Compared:
    outcome = NightOutcome(
        night=night.name.sweep_id,
        date=night.name.date,
        launch_file=str(night.options.file),
        suite=night.request.suite_name,
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
        host=night.host,
    )
    return outcome, ()


def _reasons(history: History, screened: Screened) -> tuple[str, ...]:
    series = [one for one in screened.series if one.key.metric != "sign"]
    if sum(one.is_judged for one in series) >= JUDGED_SHARE * len(series):
        return ()
    nights, tonight = len(history.comparable(history.longest)), history.tonight
    if nights < FEWEST_NIGHTS:
        needed = f"{nights} of the {FEWEST_NIGHTS} nights that a comparison needs"
        return (f"too few nights: {needed}, tonight among them; the next nights bring more",)
    absent = sum(one.points[-1].value is None for one in series)
    reasons = [f"{len(series)} series, {absent} without a value tonight"]
    if tonight.is_cut:
        reasons.append(
            f"the time was up after {tonight.reached} of {tonight.planned} trials: "
            "raise budget_minutes, or take a smaller suite"
        )
    return tuple(reasons)
