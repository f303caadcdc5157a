"""Measures a night, compares it with earlier nights, and reports changes."""

import random
import secrets
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TypeAlias

from rich.console import Console

from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.analysis.nights.candidates import Candidate, Remeasured, read_fresh, screen_all
from cudnn_sweep.analysis.nights.detect import LOOKS
from cudnn_sweep.analysis.nights.findings import remembered
from cudnn_sweep.analysis.nights.history import (
    SOFTWARE_AND_COMMIT,
    History,
    differences,
    read_history,
)
from cudnn_sweep.analysis.nights.outcome import NightOutcome
from cudnn_sweep.analysis.nights.reports.report import to_json, write_reports
from cudnn_sweep.analysis.nights.series import (
    COLD_EMPTY,
    ENGINE,
    ERROR,
    OF_EVERY_CONFIG,
    Series,
    SeriesKey,
)
from cudnn_sweep.analysis.nights.settle import compare_night
from cudnn_sweep.analysis.store.progress import sweep_states
from cudnn_sweep.analysis.words import given, two_digits
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.orchestrator.errors import (
    NeedsGpuError,
    OrchestratorError,
    SpecError,
    WebhookError,
    exit_code_of,
)
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.locks.private_folder import scratch_folder
from cudnn_sweep.orchestrator.locks.sweep_lock import night_lock
from cudnn_sweep.orchestrator.nightly.news import WhereToLook, news_of, print_outcome, tell
from cudnn_sweep.orchestrator.nightly.request import NightRequest, as_sent_alert, read_night
from cudnn_sweep.orchestrator.planning.decided import name_of
from cudnn_sweep.orchestrator.planning.options import NightOptions
from cudnn_sweep.orchestrator.planning.plan import LAST_GOOD, OWN_SOFTWARE, Plan, Trial, balanced
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.running.run_sweep import Place, plan_sweep, run_sweep, tell_stopped
from cudnn_sweep.orchestrator.terminal.plan_text import cell_labels
from cudnn_sweep.orchestrator.terminal.say import say, warn
from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.suite import SuiteSpec
from cudnn_sweep.workloads.hashes import content_hash

RUN_ERRORS = (OrchestratorError, ClusterError, AnalysisError)
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"  # file that GitHub shows with a CI step
TIME_SHARE = 0.5  # time limit of fresh trials divided by that of the night
Compared: TypeAlias = tuple[NightOutcome, Sequence[Series]]
Suspect: TypeAlias = tuple[Cell, Sequence[Config]]


def run_night(
    options: NightOptions,
    environment: Mapping[str, str],
    console: Console,
    place: Place | None = None,
) -> int:
    """Run a night and return the exit code. `place` replaces the launch file's destination. Raises
    an error of `MISTAKES` if the launch file or an option is wrong."""
    night = read_night(options, environment, place)
    if night.fault is not None and (options.dry_run or night.diary().of(night.name)):
        raise night.fault
    if isinstance(night.webhook, SpecError):
        warn(console, f"warning: no notification will be sent: {night.webhook}")
    if options.dry_run:
        night.destination.show(night.request, console)
        times = [night.minutes, TIME_SHARE * night.minutes]
        hours = two_digits(sum(times) / 60)
        least, fresh = map(given, times)
        parts = f"{least} minutes for the suite, {fresh} for fresh trials"
        say(console, f"A night takes at most about {hours} hours on each GPU: {parts}.")
        return ExitCode.FINE
    try:
        with night_lock(night.request.results, night.name.launch):
            code = _night(night, environment, console)
    except RUN_ERRORS as error:
        say(console, f"could not tell: {error}")
        return _kept_by(error) or ExitCode.CANNOT_TELL
    if night.fault is not None:
        raise night.fault
    return code


def _night(night: NightRequest, environment: Mapping[str, str], console: Console) -> int:
    diary = night.diary()
    for fault in diary.unreadable(night.name):
        warn(console, f"warning: the night ignores an unreadable file: {fault}")
    outcome, series = _compared(night, console)
    diary.write(outcome)
    summary = Path(environment[STEP_SUMMARY]) if environment.get(STEP_SUMMARY) else None
    reports = write_reports(outcome, series, night.reports, step_summary=summary)
    if night.options.format == "json":
        print(to_json(outcome), end="")
    else:
        print_outcome(outcome, reports, console, night.options.results)
    post_news(night, outcome, console)
    return outcome.exit_code


def _compared(night: NightRequest, console: Console) -> Compared:
    diary = night.diary()
    if night.place is None and night.fault is None and night.options.measure:
        try:
            place = night.destination.night(night.request, night.job(), diary.keep, console)
        except RUN_ERRORS as error:
            return not_measured(night, (str(error),), _kept_by(error)), ()
        outcome = diary.of(night.name)
        if place is None and outcome is not None:
            return compare(night, console, outcome.skipped, outcome)
        night = replace(night, place=place)
    return measured_and_compared(night, console)


def measured_and_compared(night: NightRequest, console: Console) -> Compared:
    """Measure the night and compare it. Errors are stored in the outcome's `reasons`."""
    earlier = night.diary().of(night.name)
    skipped = earlier.skipped if earlier else {}
    reasons = () if night.fault is None else tuple(str(night.fault).splitlines())
    kept_by: ExitCode | None = None
    if night.place is not None and not reasons:
        try:
            reasons = why_unfit(night, night.place)
            if not reasons and not _is_measured(night):
                planned = plan_sweep(night.request, night.place)
                skipped = dict(planned.skipped)
                ran = run_sweep(planned, night.place, console)
                kept_by = ExitCode.UNFINISHED if ran.progress.stopped else None
        except RUN_ERRORS as error:
            reasons, kept_by = tuple(str(error).splitlines()), _kept_by(error)
    if reasons:
        return not_measured(night, reasons, kept_by), ()
    outcome, series = compare(night, console, skipped)
    return replace(outcome, kept_by=kept_by if outcome.reasons else None), series


def _kept_by(error: Exception) -> ExitCode | None:
    code = exit_code_of(error)
    return code if code in (ExitCode.NEEDS_GPU, ExitCode.UNFINISHED) else None


def _is_measured(night: NightRequest) -> bool:
    """Return whether the night's sweep is complete."""
    states = sweep_states(night.store().stored_trials(night.name.sweep_id).values())
    return any(
        state.finished and not any(split.waits for split in state.blocks.split) for state in states
    )


def why_unfit(night: NightRequest, place: Place) -> tuple[str, ...]:
    """Return the problems of a place. Raises NeedsGpuError if a required GPU is missing."""
    checks = [*place.checks(night.request.results)]
    no_gpu = [check for check in checks if (check.name, check.state) == ("CUDA", "warning")]
    no_gpu = no_gpu if night.suite.needs_cuda else []
    reasons = tuple(
        f"{check.name}: {check.found}; {check.advice}"
        for check in checks
        if check.state == "problem" or check in no_gpu
    )
    if no_gpu:
        raise NeedsGpuError("\n".join(reasons))
    return reasons


def compare(
    night: NightRequest,
    console: Console,
    skipped: dict[str, str],
    outcome: NightOutcome | None = None,
) -> Compared:
    """Compare the night with earlier nights. `skipped` maps each skipped model to the reason.
    If a cluster job has already compared the night, its `outcome` is returned unchanged.
    """
    diary, tonight = night.diary(), night.name.date
    first, before, accepted = diary.baseline(), diary.before(night.name), diary.accepted()
    blank = outcome or not_measured(night, ("no trial was recorded tonight",))
    if first is not None and tonight < first:
        reason = (
            f"{tonight} is before the pinned night {first}; use --unpin, or --pin an earlier night"
        )
        return outcome or replace(blank, reasons=(reason,)), ()

    def read() -> History | None:
        of_night = (night.name.launch, night.name.sweep_id, night.contrasts)
        return read_history(night.store(), *of_night, first=first, skipped=skipped)

    history = read()
    if history is None:
        return blank, ()
    memory = remembered(before, accepted, history)
    if outcome is not None:
        return outcome, screen_all(history, memory).series
    blank = replace(blank, reasons=(), skipped=skipped)
    measure = partial(measure_again, night, console=console)
    return compare_night(blank, history, memory, measure, read, night.again)


def not_measured(
    night: NightRequest, reasons: Sequence[str], kept_by: ExitCode | None = None
) -> NightOutcome:
    return NightOutcome(
        night=night.name.sweep_id,
        date=night.name.date,
        launch_file=str(night.options.file),
        suite=night.request.suite_name,
        started_at=night.began,
        ended_at=datetime.now(UTC),
        state="could_not_tell",
        reasons=tuple(reasons),
        host=night.host,
        kept_by=kept_by,
    )


def post_news(night: NightRequest, outcome: NightOutcome, console: Console) -> None:
    """Post the new alerts and other news of the night, if it is the last night."""
    diary = night.diary()
    if not diary.is_last(night.name):
        return
    sent = diary.sent_alerts()
    notable = [finding for finding in outcome.findings if finding.is_alert or finding.is_news]
    to_tell = {as_sent_alert(finding): finding for finding in notable}
    fresh = [finding for alert, finding in to_tell.items() if alert not in sent]
    is_measured = bool(outcome.recorded_trials)  # alerts are kept after a night without records
    kept = [alert for alert in sent if alert in to_tell or not is_measured]
    before, measured = diary.before(night.name, measured=False), diary.before(night.name)
    is_news = bool(
        fresh
        or outcome.new_baseline is not None
        or _stopped_telling(before, outcome)
        or outcome.skipped.keys() - (measured.skipped if measured else {})
    )
    if is_news and night.webhook is not None:
        folder = night.keys.report_url or f"{socket.gethostname()}:{night.reports.absolute()}"
        where = WhereToLook(
            folder=Path.cwd(),
            program=night.options.program,
            results=night.request.results,
            page=f"{folder.rstrip('/')}/{night.name.date}/night.html",
        )
        try:
            if isinstance(night.webhook, SpecError):
                raise night.webhook
            tell(night.webhook, news_of(outcome, fresh, where))
        except (SpecError, WebhookError) as error:
            warn(console, f"warning: no notification was sent: {error}")
            fresh = []
    diary.write_sent_alerts([*kept, *map(as_sent_alert, fresh)])


def _stopped_telling(before: NightOutcome | None, outcome: NightOutcome) -> bool:
    if outcome.state == "learning":
        return before is not None and before.state in ("fine", "regression")
    return outcome.state == "could_not_tell" and (before is None or before.state != outcome.state)


# --- Fresh trials of candidates ---


def measure_again(
    night: NightRequest, candidates: Sequence[Candidate], console: Console
) -> dict[SeriesKey, Remeasured]:
    """Measure candidates again and judge them. If there is no place, judge stored fresh trials."""
    if night.place is not None:
        try:
            return _measure(night, night.place, candidates, console)
        except (OrchestratorError, ClusterError) as error:
            warn(console, f"warning: nothing could be measured again: {error}")
            return {}
    fresh = read_fresh(night.store(), night.name.launch, night.name.confirm_id, night.contrasts)
    return fresh.judge_all(candidates, fresh.differences(), is_cut=True)


def _measure(
    night: NightRequest, place: Place, candidates: Sequence[Candidate], console: Console
) -> dict[SeriesKey, Remeasured]:
    """Measure undecided candidates, and judge them after each round."""
    planned = plan_sweep(night.request, place)
    store, confirm_id = night.store(), night.name.confirm_id
    suite = suite_again(night.suite, candidates, max(LOOKS))
    suspects = suspects_of(candidates, planned.whole)
    of_two, softwares, pythons = None, [OWN_SOFTWARE], {}
    if night.keys.last_good is not None:
        pythons = {LAST_GOOD: Path(night.keys.last_good)}
        good, own = place.last_good(pythons[LAST_GOOD]), planned.machine.environment
        if good.software_hash != own.software_hash:
            of_two = differences(asdict(good), asdict(own), SOFTWARE_AND_COMMIT)
            softwares.append(LAST_GOOD)
    ends = monotonic() + TIME_SHARE * night.minutes * 60
    judged: dict[SeriesKey, Remeasured] = {}
    name, waiting = planned.whole.suite, list(candidates)
    with place.opened(store, planned.machine, console) as run:
        for look in LOOKS:
            plan = confirmation_plan(name, suite, suspects, blocks=look, softwares=softwares)
            cells = {candidate.key.cell_id for candidate in waiting}
            is_over = {trial.trial_id for trial in plan.trials if trial.cell.cell_id not in cells}
            todo = plan.without(is_over.union(store.stored_trials(confirm_id)))
            left_s = ends - monotonic()
            if todo.trials and left_s > 0:
                labels = ", ".join(cell_labels(trial.cell for trial in todo.trials).values())
                say(console, f"Measuring again in {len(todo.trials)} trials: {labels}")
                session = replace(
                    session_of(plan, confirm_id, Path()),
                    scratch=scratch_folder(confirm_id),
                    launch_id=f"launch-{secrets.token_hex(4)}",
                    plan=todo,
                    preload=planned.preload,
                    pythons=pythons,
                )
                tell_stopped(store, run(session, left_s), console)
            fresh = read_fresh(night.store(), night.name.launch, confirm_id, night.contrasts)
            judged |= fresh.judge_all(waiting, of_two, is_cut=monotonic() > ends)
            more = {key for key, result in judged.items() if result.confirmation.more_blocks}
            waiting = [candidate for candidate in waiting if candidate.key in more]
            if not waiting or of_two is None or left_s <= 0:
                break
    shutil.rmtree(scratch_folder(confirm_id), ignore_errors=True)
    return judged


def confirmation_plan(
    name: str,
    suite: SuiteSpec,
    suspects: Sequence[Suspect],
    *,
    blocks: int,
    softwares: Sequence[str] = (OWN_SOFTWARE, LAST_GOOD),
) -> Plan:
    """Return a plan with `blocks` blocks of each suspect cell. A block runs each config with each
    software. A plan with more blocks begins like this plan."""
    order = random.Random(content_hash([cell.cell_id for cell, _ in suspects]))
    starts = {}
    for cell, configs in suspects:
        placed = [(config, software) for config in configs for software in softwares]
        starts[cell.cell_id] = order.sample(placed, len(placed))
    trials: list[Trial] = []
    for replicate in range(blocks):
        for place, (cell, _) in enumerate(order.sample(suspects, len(suspects))):
            for config, software in balanced(starts[cell.cell_id], replicate):
                trials.append(
                    Trial(
                        cell=cell,
                        config=config,
                        replicate=replicate,
                        twin=0,
                        block=replicate * len(suspects) + place,
                        position=len(trials),
                        cache_generation=min(replicate, suite.new_compute_caches - 1),
                        software=software,
                    )
                )
    return Plan(suite=name, measure=suite.measure, trials=tuple(trials))


def suspects_of(candidates: Sequence[Candidate], whole: Plan) -> list[Suspect]:
    keys = [candidate.key for candidate in candidates]
    suspect = {
        (key.cell_id, None if key.metric in OF_EVERY_CONFIG else key.settings) for key in keys
    }
    names = [(config, name_of(config)) for config in whole.configs()]
    suspects = [
        (cell, [config for config, name in names if suspect & {(cell_id, None), (cell_id, name)}])
        for cell_id, cell in {trial.cell.cell_id: trial.cell for trial in whole.trials}.items()
    ]
    return [(cell, configs) for cell, configs in suspects if configs]


def suite_again(suite: SuiteSpec, candidates: Sequence[Candidate], blocks: int) -> SuiteSpec:
    """Return the suite, changed so that each block measures what the candidates need."""
    metrics = {candidate.key.metric for candidate in candidates}
    references, logs = (blocks if metric.name in metrics else 0 for metric in (ERROR, ENGINE))
    replicates = {"reference_replicates": references, "logged_replicates": logs}
    measure = suite.measure.model_copy(update=replicates)
    caches = blocks if COLD_EMPTY.name in metrics else suite.new_compute_caches
    return suite.model_copy(update={"measure": measure, "new_compute_caches": caches})
