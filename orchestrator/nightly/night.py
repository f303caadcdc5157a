"""A night: measure within its time, compare with the nights before, confirm, report, tell."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.analysis.nightly.outcome import EXIT_CODES
from cudnn_sweep.analysis.nightly.reports.write import write_reports
from cudnn_sweep.analysis.storing.progress import sweep_states
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.orchestrator.errors import OrchestratorError, SpecError
from cudnn_sweep.orchestrator.launching.launch_here import print_planned
from cudnn_sweep.orchestrator.locks.sweep_lock import night_lock
from cudnn_sweep.orchestrator.nightly.compare import compare, not_measured
from cudnn_sweep.orchestrator.nightly.news import post_news, show
from cudnn_sweep.orchestrator.nightly.request import NightRequest, read_night
from cudnn_sweep.orchestrator.planning.options import NightOptions
from cudnn_sweep.orchestrator.running.run_sweep import DONE, plan_sweep, run_sweep
from cudnn_sweep.orchestrator.showing.say import say, warn
from cudnn_sweep.workloads.cells.expand import without_missing

RUN_ERRORS = (OrchestratorError, ClusterError, AnalysisError)  # not the user's input
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"  # a file that a CI step shows


def run_night(options: NightOptions, environment: Mapping[str, str], console: Console) -> int:
    """Returns the exit code: 0 fine or still learning, 1 a regression is confirmed, 3 it could not tell.

    Raises an error of the folders for a mistake in what is night.
    """
    night = read_night(options, environment, console)
    if night.fault is not None and (options.dry_run or night.diary().of(night.name)):
        raise night.fault
    if options.dry_run:
        if options.fake is None:
            return night.destination.show(night.request, console)
        print_planned(plan_sweep(night.request, night.place), console)
        return DONE
    try:
        with night_lock(night.request.results, night.name.launch):
            code = _night(night, environment, console)
        if night.fault is None:
            return code
    except RUN_ERRORS as error:
        say(console, f"could not tell: {error}")
        return EXIT_CODES["could_not_tell"]
    raise night.fault


def _night(night: NightRequest, environment: Mapping[str, str], console: Console) -> int:
    began = datetime.now(UTC)
    if isinstance(night.webhook, SpecError):
        warn(console, f"warning: nobody will be told: {night.webhook}")
    for fault in night.diary().unreadable(night.name):
        warn(console, f"warning: the night goes on without a file: {fault}")
    earlier = night.diary().of(night.name)
    skipped = earlier.skipped if earlier else {}
    reasons = () if night.fault is None else tuple(str(night.fault).splitlines())
    if night.options.measure and not reasons:
        reasons = why_unfit(night) or _measure(night, console, skipped)
    if reasons:
        outcome, series = not_measured(night, began, reasons)
    else:
        outcome, series = compare(night, began, console, skipped)
    night.diary().write(outcome)
    summary = Path(environment[STEP_SUMMARY]) if environment.get(STEP_SUMMARY) else None
    reports = write_reports(outcome, series, night.reports, step_summary=summary)
    show(outcome, reports, night.options.format, console, night.options.results)
    post_news(night, outcome, console)
    return outcome.exit_code


def _measure(night: NightRequest, console: Console, skipped: dict[str, str]) -> tuple[str, ...]:
    """Why it could not be; whatever was recorded by then is kept. `skipped` is filled."""
    try:
        if not _is_measured(night):
            night.place.follow_running_jobs()
            planned = plan_sweep(night.request, night.place)
            skipped.clear()
            skipped |= without_missing(night.suite, planned.machine.workloads)[1]
            run_sweep(planned, night.place, console)
    except RUN_ERRORS as error:
        return (str(error),)
    return ()


def _is_measured(night: NightRequest) -> bool:
    """All of it, so that it is only compared again."""
    states = sweep_states(night.store().stored_trials(night.name.sweep_id).values())
    return any(
        state.finished and not any(split.waits for split in state.blocks.split) for state in states
    )


def why_unfit(night: NightRequest) -> tuple[str, ...]:
    """What keeps it from being measured, a line each; nothing where all is well."""
    checks = list(night.place.checks(night.request.results))
    reasons = [
        f"{check.name}: {check.found}; {check.advice}"
        for check in checks
        if check.state == "problem"
    ]
    cuda = next((check for check in checks if check.name == "CUDA"), None)
    if night.suite.needs_cuda and cuda is not None and cuda.state == "warning":
        reasons.append(f"CUDA: {cuda.found}; {cuda.advice}")
    return tuple(reasons)
