"""A night: measure within its time, compare with the nights before, confirm, report, tell."""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TypeAlias

from rich.console import Console

from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.analysis.nightly.candidates import Candidate, Remeasured, screen_all
from cudnn_sweep.analysis.nightly.history import History, read_history
from cudnn_sweep.analysis.nightly.memory import remembered
from cudnn_sweep.analysis.nightly.outcome import EXIT_CODES, NightOutcome
from cudnn_sweep.analysis.nightly.reports.report import write_reports
from cudnn_sweep.analysis.nightly.series import Series, SeriesKey
from cudnn_sweep.analysis.nightly.settle import compare_night
from cudnn_sweep.analysis.storing.progress import sweep_states
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.orchestrator.errors import OrchestratorError, SpecError, WebhookError
from cudnn_sweep.orchestrator.locks.sweep_lock import night_lock
from cudnn_sweep.orchestrator.nightly.diary import as_sent_alert
from cudnn_sweep.orchestrator.nightly.news import WhereToLook, news_of, print_outcome, tell
from cudnn_sweep.orchestrator.nightly.request import NightRequest, measure_again, read_night
from cudnn_sweep.orchestrator.planning.options import NightOptions
from cudnn_sweep.orchestrator.running.run_sweep import Place, plan_sweep, run_sweep
from cudnn_sweep.orchestrator.showing.say import say, warn

Compared: TypeAlias = tuple[NightOutcome, Sequence[Series]]
RUN_ERRORS = (OrchestratorError, ClusterError, AnalysisError)  # not the user's input
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"  # a file that a CI step shows


def run_night(
    options: NightOptions,
    environment: Mapping[str, str],
    console: Console,
    place: Place | None = None,
) -> int:
    """Returns the exit code: 0 fine or still learning, 1 a regression is confirmed, 3 it could not tell.

    `place`: measure there, whatever the launch file names. Raises the errors of the folders for a mistake in the
    launch file or an option.
    """
    night = read_night(options, environment, place)
    if night.fault is not None and (options.dry_run or night.diary().of(night.name)):
        raise night.fault
    if options.dry_run:
        return night.destination.show(night.request, console)
    try:
        with night_lock(night.request.results, night.name.launch):
            code = _night(night, environment, console)
    except RUN_ERRORS as error:
        say(console, f"could not tell: {error}")
        return EXIT_CODES["could_not_tell"]
    if night.fault is not None:
        raise night.fault
    return code


def _night(night: NightRequest, environment: Mapping[str, str], console: Console) -> int:
    began, diary = datetime.now(UTC), night.diary()
    if isinstance(night.webhook, SpecError):
        warn(console, f"warning: nobody will be told: {night.webhook}")
    for fault in diary.unreadable(night.name):
        warn(console, f"warning: the night goes on without a file: {fault}")
    outcome, series = _compared(night, began, console)
    diary.write(outcome)
    summary = Path(environment[STEP_SUMMARY]) if environment.get(STEP_SUMMARY) else None
    reports = write_reports(outcome, series, night.reports, step_summary=summary)
    print_outcome(outcome, reports, night.options.format, console, night.options.results)
    post_news(night, outcome, console)
    return outcome.exit_code


def _compared(night: NightRequest, began: datetime, console: Console) -> Compared:
    if night.fault is None and night.options.measure:
        diary = night.diary()
        try:
            is_sent = night.destination.night(night.request, night.job(), diary.keep, console)
        except RUN_ERRORS as error:
            return not_measured(night, began, (str(error),)), ()
        if is_sent:
            outcome = diary.of(night.name)
            assert outcome is not None
            return outcome, series_of(night, outcome.skipped)
    return measured_and_compared(night, began, console)


def post_news(night: NightRequest, outcome: NightOutcome, console: Console) -> None:
    """Post alerts and news that were not sent yet. Alerts that could not be delivered are sent the next night; news is
    posted once. Comparing an old night again sends nothing.
    """
    diary = night.diary()
    if not diary.is_last(night.name):
        return
    sent = diary.sent_alerts()
    to_tell = [each for each in outcome.findings if each.is_alert or each.is_news]
    fresh = [each for each in to_tell if as_sent_alert(each) not in sent]
    current = [as_sent_alert(each) for each in to_tell]
    is_measured = bool(outcome.recorded_trials)  # else alerts that were sent may last
    kept = [each for each in sent if each in current or not is_measured]
    before, measured = diary.before(night.name, measured=False), diary.before(night.name)
    is_news = bool(
        fresh
        or outcome.new_baseline is not None
        or _stopped_telling(before, outcome)
        or outcome.skipped.keys() - (measured.skipped if measured else {})
    )
    if is_news and night.webhook is not None:
        where = _where(night)
        try:
            if isinstance(night.webhook, SpecError):
                raise night.webhook
            tell(night.webhook, news_of(outcome, fresh, where))
        except (SpecError, WebhookError) as error:
            warn(console, f"warning: no notification was sent: {error}")
            fresh = []
    diary.write_sent_alerts([*kept, *map(as_sent_alert, fresh)])


def _where(night: NightRequest) -> WhereToLook:
    folder = f"{socket.gethostname()}:{night.reports.absolute()}"
    if night.keys.report_url is not None:
        folder = night.keys.report_url.rstrip("/")
    return WhereToLook(
        folder=Path.cwd(),
        program=night.options.program,
        results=night.request.results,
        page=f"{folder}/{night.name.date}/night.html",
    )


def _stopped_telling(before: NightOutcome | None, outcome: NightOutcome) -> bool:
    """The first night that learns is expected to, and one that cannot tell is not."""
    if outcome.state == "learning":
        return before is not None and before.state in ("fine", "regression")
    return outcome.state == "could_not_tell" and (before is None or before.state != outcome.state)


def measured_and_compared(night: NightRequest, began: datetime, console: Console) -> Compared:
    """By this process, at the night's place."""
    earlier = night.diary().of(night.name)
    skipped = earlier.skipped if earlier else {}
    reasons = () if night.fault is None else tuple(str(night.fault).splitlines())
    if night.options.measure and not reasons:
        reasons = why_unfit(night) or _measure_sweep(night, console, skipped)
    if reasons:
        return not_measured(night, began, reasons), ()
    return compare(night, began, console, skipped)


def _measure_sweep(
    night: NightRequest, console: Console, skipped: dict[str, str]
) -> tuple[str, ...]:
    """Why it was not measured; what was recorded by then is kept. `skipped` is filled."""
    try:
        states = sweep_states(night.store().stored_trials(night.name.sweep_id).values())
        if any(
            state.finished and not any(split.waits for split in state.blocks.split)
            for state in states
        ):  # it is only compared again
            return ()
        planned = plan_sweep(night.request, night.place)
        skipped.clear()
        skipped |= planned.skipped
        run_sweep(planned, night.place, console)
    except RUN_ERRORS as error:
        return (str(error),)
    return ()


def why_unfit(night: NightRequest) -> tuple[str, ...]:
    """What keeps it from being measured, a line each; nothing where all is well."""
    return tuple(
        f"{check.name}: {check.found}; {check.advice}"
        for check in night.place.checks(night.request.results)
        if check.state == "problem"
        or (night.suite.needs_cuda and (check.name, check.state) == ("CUDA", "warning"))
    )


def compare(
    night: NightRequest, began: datetime, console: Console, skipped: dict[str, str]
) -> Compared:
    """`skipped`: models that were not measured tonight, and why: none of them is missing."""
    blank, diary = not_measured(night, began, ()), night.diary()
    first, before, accepted = diary.baseline(), diary.before(night.name), diary.accepted()
    if first is not None and night.name.date < first:
        reason = f"{night.name.date} is before {first}, the pinned night: --unpin, or --pin an earlier one"
        return replace(blank, reasons=(reason,)), ()
    history = _read(night, first, skipped)
    if history is None:
        return replace(blank, reasons=("no trial was recorded tonight",)), ()
    memory = remembered(before, accepted, history)

    def measure(candidates: Sequence[Candidate]) -> tuple[dict[SeriesKey, Remeasured], History]:
        fresh = measure_again(night, candidates, console)
        return fresh, _read(night, first, skipped) or history

    return compare_night(replace(blank, skipped=skipped), history, memory, measure, night.again)


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
    return read_history(
        night.store(), name.launch, name.sweep_id, night.contrasts, first=first, skipped=skipped
    )


def not_measured(night: NightRequest, began: datetime, reasons: Sequence[str]) -> NightOutcome:
    return NightOutcome(
        night=night.name.sweep_id,
        date=night.name.date,
        launch_file=str(night.options.file),
        suite=night.request.suite_name,
        started_at=began,
        ended_at=datetime.now(UTC),
        state="could_not_tell",
        reasons=tuple(reasons),
        host=night.host,
    )
