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
from cudnn_sweep.orchestrator.nightly.night_view import show
from cudnn_sweep.orchestrator.nightly.notify import tell_news
from cudnn_sweep.orchestrator.nightly.request import NightRequest, read_asked
from cudnn_sweep.orchestrator.planning.options import NightOptions
from cudnn_sweep.orchestrator.running.run_sweep import DONE, plan_sweep, run_sweep
from cudnn_sweep.orchestrator.showing.say import say, warn
from cudnn_sweep.workloads.cells.expand import without_missing

UNTOLD = (OrchestratorError, ClusterError, AnalysisError)  # of what was asked rightly
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"  # a file that a CI step shows


def run_night(options: NightOptions, environment: Mapping[str, str], console: Console) -> int:
    """Returns the exit code: 0 fine or still learning, 1 a regression is confirmed, 3 it could not tell.

    Raises an error of the folders for a mistake in what is asked.
    """
    asked = read_asked(options, environment, console)
    if asked.fault is not None and (options.dry_run or asked.diary().of(asked.name)):
        raise asked.fault
    if options.dry_run:
        if options.fake is None:
            return asked.destination.show(asked.request, console)
        print_planned(plan_sweep(asked.request, asked.place), console)
        return DONE
    try:
        with night_lock(asked.request.results, asked.name.launch):
            code = _night(asked, environment, console)
        if asked.fault is None:
            return code
    except UNTOLD as error:
        say(console, f"could not tell: {error}")
        return EXIT_CODES["could_not_tell"]
    raise asked.fault


def _night(asked: NightRequest, environment: Mapping[str, str], console: Console) -> int:
    began = datetime.now(UTC)
    if isinstance(asked.webhook, SpecError):
        warn(console, f"warning: nobody will be told: {asked.webhook}")
    for fault in asked.diary().unreadable(asked.name):
        warn(console, f"warning: the night goes on without a file: {fault}")
    known = asked.diary().of(asked.name)
    skipped = known.skipped if known else {}
    reasons = () if asked.fault is None else tuple(str(asked.fault).splitlines())
    if asked.options.measure and not reasons:
        reasons = why_unfit(asked) or _measure(asked, console, skipped)
    compared = not_measured(asked, began, reasons)
    if not reasons:
        compared = compare(asked, began, console, skipped)
    asked.diary().write(compared.outcome)
    summary = environment.get(STEP_SUMMARY)
    reports = write_reports(
        compared.outcome,
        compared.series,
        asked.reports,
        step_summary=Path(summary) if summary else None,
    )
    show(compared.outcome, reports, asked.options.format, console, asked.options.results)
    tell_news(asked, compared.outcome, console)
    return compared.outcome.exit_code


def _measure(asked: NightRequest, console: Console, skipped: dict[str, str]) -> tuple[str, ...]:
    """Why it could not be; whatever was recorded by then is kept. `skipped` is filled."""
    try:
        if not _is_measured(asked):
            asked.place.follow_running_jobs()
            planned = plan_sweep(asked.request, asked.place)
            skipped.clear()
            skipped |= without_missing(asked.suite, planned.machine.workloads)[1]
            run_sweep(planned, asked.place, console)
    except UNTOLD as error:
        return (str(error),)
    return ()


def _is_measured(asked: NightRequest) -> bool:
    """All of it, so that it is only compared again."""
    states = sweep_states(asked.store().stored_trials(asked.name.sweep_id).values())
    return any(
        state.finished and not any(split.waits for split in state.blocks.split) for state in states
    )


def why_unfit(asked: NightRequest) -> tuple[str, ...]:
    """What keeps it from being measured, a line each; nothing where all is well."""
    checks = list(asked.place.checks(asked.request.results))
    reasons = [
        f"{check.name}: {check.found}; {check.advice}"
        for check in checks
        if check.state == "problem"
    ]
    cuda = next((check for check in checks if check.name == "CUDA"), None)
    if asked.suite.needs_cuda and cuda is not None and cuda.state == "warning":
        reasons.append(f"CUDA: {cuda.found}; {cuda.advice}")
    return tuple(reasons)
