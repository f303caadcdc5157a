"""A night: measure within its time, compare with the nights before, confirm, report, tell."""

import json
import shlex
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from rich.console import Console

from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.analysis.nightly.outcome import EXIT_CODES, Finding, NightOutcome
from cudnn_sweep.analysis.nightly.reports.as_json import to_json
from cudnn_sweep.analysis.nightly.reports.grouped import OneChange, headline, one_by_one
from cudnn_sweep.analysis.nightly.reports.report import write_reports
from cudnn_sweep.analysis.nightly.reports.sections import details, sections
from cudnn_sweep.analysis.nightly.reports.words import (
    Group,
    finding_texts,
    notes,
)
from cudnn_sweep.analysis.storing.progress import sweep_states
from cudnn_sweep.analysis.words import one_line
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.orchestrator.errors import OrchestratorError, SpecError, WebhookError
from cudnn_sweep.orchestrator.launching.destinations import print_planned
from cudnn_sweep.orchestrator.locks.sweep_lock import night_lock
from cudnn_sweep.orchestrator.nightly.compare import Compared, compare, not_measured, series_of
from cudnn_sweep.orchestrator.nightly.diary import as_sent_alert
from cudnn_sweep.orchestrator.nightly.request import NightRequest, read_night
from cudnn_sweep.orchestrator.nightly.webhook import News, tell
from cudnn_sweep.orchestrator.planning.options import NightOptions
from cudnn_sweep.orchestrator.remote.clusters import Cluster
from cudnn_sweep.orchestrator.remote.job import NightJob
from cudnn_sweep.orchestrator.running.run_sweep import DONE, NightPlace, plan_sweep, run_sweep
from cudnn_sweep.orchestrator.showing.say import say, warn
from cudnn_sweep.workloads.cells.expand import without_missing

STYLES: dict[Group | None, str] = {
    "alert": "bold red",
    "waiting": "yellow",
    "better": "green",
    "refuted": "dim",
}
STATE_STYLES = {
    "fine": "bold green",
    "learning": "bold cyan",
    "regression": "bold red",
    "could_not_tell": "bold yellow",
}
RUN_ERRORS = (OrchestratorError, ClusterError, AnalysisError)  # not the user's input
COMPARED_WITH = timedelta(days=100)  # nights that a job takes along, where none is pinned
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"  # a file that a CI step shows


@dataclass(frozen=True, kw_only=True, slots=True)
class WhereToLook:
    """What the commands and the link of a message need."""

    folder: Path
    """Where the commands are to be typed."""
    program: str
    results: str
    page: str
    """URL or path of the night's page."""


def show(
    outcome: NightOutcome,
    reports: Sequence[Path],
    form: Literal["text", "json"],
    console: Console,
    results: str | None = None,
) -> None:
    """`results` are those that the command line named."""
    if form == "json":
        print(to_json(outcome), end="")
        return
    say(console, headline(outcome), STATE_STYLES[outcome.state])
    for section in sections(outcome, results=results):
        say(console, f"\n{section.title}", STYLES.get(section.group, "bold"))
        changes = [[each.told, *details(each)] for each in section.changes]
        for lines in (*([each] for each in section.reasons), *changes):
            say(console, "\n    ".join(map(one_line, lines)))
        for words in section.notes:
            say(console, one_line(" ".join(words)))
        for name, *values in section.rows:
            say(console, one_line(f"{name}: {' → '.join(values)}"))
    say(console, f"\nReports: {', '.join(map(str, reports))}")


def post_news(night: NightRequest, outcome: NightOutcome, console: Console) -> None:
    """Post alerts that were not sent yet. What could not be delivered is news again the next night. Comparing an
    old night again sends nothing.
    """
    diary = night.diary()
    if not diary.is_last(night.name):
        return
    sent = diary.sent_alerts()
    fresh = [alert for alert in outcome.alerts if as_sent_alert(alert) not in sent]
    current = [as_sent_alert(alert) for alert in outcome.alerts]
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
        try:
            if isinstance(night.webhook, SpecError):
                raise night.webhook
            tell(night.webhook, news_of(outcome, fresh, _where(night)))
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


def news_of(outcome: NightOutcome, fresh: Collection[Finding], where: WhereToLook) -> News:
    """`fresh`: the findings that were not sent before."""
    new = [each for each in finding_texts(outcome) if each.finding in fresh]
    as_before = [f"{outcome.fine_series:,} series are as they were."] if new else []
    return News(
        headline=headline(outcome, fresh),
        findings=(
            *(_lines(change, where) for change in one_by_one(new)),
            *outcome.reasons,
            *notes(outcome),
            "\n".join([*as_before, f"Page: {where.page}"]),
        ),
        result=json.loads(to_json(outcome)),
    )


def _lines(change: OneChange, where: WhereToLook) -> str:
    there = f"cd {shlex.quote(str(where.folder))} && "
    lines = [change.told, *change.details]
    if change.versions is not None:
        words = [where.program, "compare", *change.versions, "--results", where.results]
        lines.append(f"Which version: {there}{shlex.join(words)}")
    return "\n".join(map(one_line, [*lines, f"Measure again: {there}{change.command}"]))


def run_night(options: NightOptions, environment: Mapping[str, str], console: Console) -> int:
    """Returns the exit code: 0 fine or still learning, 1 a regression is confirmed, 3 it could not tell.

    Raises an error of the folders for a mistake in what is night.
    """
    night = read_night(options, environment)
    if night.fault is not None and (options.dry_run or night.diary().of(night.name)):
        raise night.fault
    if options.dry_run:
        if night.destination is not None and options.fake is None:
            return night.destination.show(night.request, console)
        if night.place is not None:
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
    if night.place is None:
        outcome, series = _compared_by_a_job(night, began, console)
    else:
        outcome, series = measured_and_compared(night, began, console)
    night.diary().write(outcome)
    summary = Path(environment[STEP_SUMMARY]) if environment.get(STEP_SUMMARY) else None
    reports = write_reports(outcome, series, night.reports, step_summary=summary)
    show(outcome, reports, night.options.format, console, night.options.results)
    post_news(night, outcome, console)
    return outcome.exit_code


def _compared_by_a_job(night: NightRequest, began: datetime, console: Console) -> Compared:
    """By one on the cluster that measures, compares and confirms."""
    cluster = night.destination
    if night.fault is not None or not night.options.measure or not isinstance(cluster, Cluster):
        return measured_and_compared(night, began, console)
    diary = night.diary()
    since = diary.baseline() or night.name.date - COMPARED_WITH
    job = NightJob(
        options=night.options, keys=night.keys, name=night.name, host=night.host, since=since
    )
    try:
        cluster.night(night.request, job, diary.keep, console)
    except RUN_ERRORS as error:
        return not_measured(night, began, (str(error),))
    outcome = diary.of(night.name)
    assert outcome is not None
    return outcome, series_of(night, outcome.skipped)


def measured_and_compared(night: NightRequest, began: datetime, console: Console) -> Compared:
    earlier = night.diary().of(night.name)
    skipped = earlier.skipped if earlier else {}
    reasons = () if night.fault is None else tuple(str(night.fault).splitlines())
    if night.options.measure and night.place is not None and not reasons:
        reasons = why_unfit(night, night.place) or _measure(night, night.place, console, skipped)
    if reasons:
        return not_measured(night, began, reasons)
    return compare(night, began, console, skipped)


def _measure(
    night: NightRequest, place: NightPlace, console: Console, skipped: dict[str, str]
) -> tuple[str, ...]:
    """Why it could not be; whatever was recorded by then is kept. `skipped` is filled."""
    try:
        if not _is_measured(night):
            planned = plan_sweep(night.request, place)
            skipped.clear()
            skipped |= without_missing(night.suite, planned.machine.workloads)[1]
            run_sweep(planned, place, console)
    except RUN_ERRORS as error:
        return (str(error),)
    return ()


def _is_measured(night: NightRequest) -> bool:
    """All of it, so that it is only compared again."""
    states = sweep_states(night.store().stored_trials(night.name.sweep_id).values())
    return any(
        state.finished and not any(split.waits for split in state.blocks.split) for state in states
    )


def why_unfit(night: NightRequest, place: NightPlace) -> tuple[str, ...]:
    """What keeps it from being measured, a line each; nothing where all is well."""
    checks = list(place.checks(night.request.results))
    reasons = [
        f"{check.name}: {check.found}; {check.advice}"
        for check in checks
        if check.state == "problem"
    ]
    cuda = next((check for check in checks if check.name == "CUDA"), None)
    if night.suite.needs_cuda and cuda is not None and cuda.state == "warning":
        reasons.append(f"CUDA: {cuda.found}; {cuda.advice}")
    return tuple(reasons)
