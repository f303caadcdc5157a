"""Compares what was measured tonight with the nights before, and measures candidates again: of two softwares side by
side where there is a last good one.
"""

import random
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, date, datetime
from pathlib import Path
from time import monotonic
from typing import TypeAlias

from rich.console import Console

from cudnn_sweep.analysis.asking.settings import config_name
from cudnn_sweep.analysis.nightly.candidates import (
    Candidate,
    FreshTrials,
    Remeasured,
    Screened,
    read_fresh,
    screen_all,
)
from cudnn_sweep.analysis.nightly.detect import FEWEST_NIGHTS, LOOKS
from cudnn_sweep.analysis.nightly.history import (
    SOFTWARE_AND_COMMIT,
    History,
    differences,
    read_history,
)
from cudnn_sweep.analysis.nightly.memory import remembered
from cudnn_sweep.analysis.nightly.outcome import NightOutcome, NightState
from cudnn_sweep.analysis.nightly.series import (
    COLD_EMPTY,
    ENGINE,
    ERROR,
    MISSING,
    SIGN,
    Series,
    SeriesKey,
)
from cudnn_sweep.analysis.nightly.settle import settle_all
from cudnn_sweep.analysis.nightly.shared import share
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.orchestrator.errors import OrchestratorError
from cudnn_sweep.orchestrator.locks.private_folder import scratch_folder
from cudnn_sweep.orchestrator.nightly.request import NightRequest
from cudnn_sweep.orchestrator.planning.plan import LAST_GOOD, OWN_SOFTWARE, Plan, Trial, balanced
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.orchestrator.planning.standing import settings_of
from cudnn_sweep.orchestrator.running.run_sweep import NightPlace, plan_of, tell_stopped
from cudnn_sweep.orchestrator.showing.plan_text import cell_labels
from cudnn_sweep.orchestrator.showing.say import say, warn
from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.cells.expand import without_missing
from cudnn_sweep.workloads.cells.suite import SuiteSpec
from cudnn_sweep.workloads.hashes import content_hash

JUDGED_SHARE = 0.9  # of the series: with fewer a night without alerts is no good news
TIME_SHARE = 0.5  # of the night's budget, besides it
OF_EVERY_CONFIG = (SIGN.name, MISSING.name)
Suspect: TypeAlias = tuple[Cell, Sequence[CudnnConfig]]
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
    told, members = share(findings, screened.series, night.again(), memory.alerted)
    is_alert = any(finding.is_alert for finding in told)
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
        findings=tuple(sorted(told, key=lambda finding: not finding.is_alert)),
        members=members,
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


def measure_again(
    night: NightRequest, candidates: Sequence[Candidate], console: Console
) -> dict[SeriesKey, Remeasured]:
    """The judgement, by fresh trials, of those candidates that are new tonight.

    None of an amount where there is no last good software: its trials join the night's value. Where
    nothing is to be measured: by trials that an earlier start of this night measured.
    """
    new = [candidate for candidate in candidates if candidate.is_new]
    if not new:
        return {}
    place = night.place
    if not night.options.measure or place is None:
        fresh = _fresh_trials(night)
        return fresh.judge_all(new, fresh.differences(), is_cut=True)
    try:
        return _measure(night, place, new, console)
    except (OrchestratorError, ClusterError) as error:
        warn(console, f"warning: nothing could be measured again: {error}")
        return {}


def _measure(
    night: NightRequest, place: NightPlace, candidates: Sequence[Candidate], console: Console
) -> dict[SeriesKey, Remeasured]:
    """Each look adds blocks, of what is not settled by then."""
    store, confirm_id = night.store(), night.name.confirm_id
    machine = place.look(night.suite)
    suite_name = night.request.suite_name
    whole = plan_of(suite_name, without_missing(night.suite, machine.workloads)[0], machine)
    of_two, pythons = None, {}
    if night.keys.last_good is not None:
        pythons = {LAST_GOOD: Path(night.keys.last_good)}
        good = place.last_good(pythons[LAST_GOOD])
        if good.software_hash != machine.environment.software_hash:
            parts = (asdict(good), asdict(machine.environment))
            of_two = differences(*parts, SOFTWARE_AND_COMMIT)
    minutes = night.request.budget_minutes or night.keys.budget_minutes
    ends = monotonic() + TIME_SHARE * minutes * 60
    suite = suite_again(night.suite, candidates, max(LOOKS))
    suspects = suspects_of(candidates, whole)
    softwares = (OWN_SOFTWARE,) if of_two is None else (OWN_SOFTWARE, LAST_GOOD)
    judged: dict[SeriesKey, Remeasured] = {}
    waiting = list(candidates)
    with place.opened(store, machine, console) as run:
        for look in LOOKS:
            plan = confirmation_plan(suite_name, suite, suspects, blocks=look, softwares=softwares)
            cells = {each.key.cell_id for each in waiting}
            settled = {each.trial_id for each in plan.trials if each.cell.cell_id not in cells}
            todo = plan.without(settled.union(store.stored_trials(confirm_id)))
            left_s = ends - monotonic()
            if todo.trials and left_s > 0:
                names = ", ".join(cell_labels(trial.cell for trial in todo.trials).values())
                say(console, f"Measuring again, {len(todo.trials)} trials: {names}")
                session = Session(
                    sweep_id=confirm_id,
                    launch_id=f"launch-{secrets.token_hex(4)}",
                    plan=todo,
                    plan_hash=plan.plan_hash,
                    plan_trials=len(plan.trials),
                    retries={},
                    scratch=scratch_folder(confirm_id),
                    folder=Path.cwd(),
                    preload=place.modules(night.suite, night.request.preload),
                    pythons=pythons,
                )
                tell_stopped(store, run(session, left_s), console)
            judged |= _fresh_trials(night).judge_all(waiting, of_two, is_cut=monotonic() > ends)
            waiting = [
                each
                for each in waiting
                if each.key in judged and judged[each.key].confirmation.more_blocks
            ]
            if not waiting or of_two is None or left_s <= 0:
                break
    shutil.rmtree(scratch_folder(confirm_id), ignore_errors=True)
    return judged


def _fresh_trials(night: NightRequest) -> FreshTrials:
    return read_fresh(night.store(), night.name.launch, night.name.confirm_id, night.contrasts)


def confirmation_plan(
    name: str,
    suite: SuiteSpec,
    suspects: Sequence[Suspect],
    *,
    blocks: int,
    softwares: Sequence[str] = (OWN_SOFTWARE, LAST_GOOD),
) -> Plan:
    """`blocks` of each cell, each with every config of it under every software, interleaved on one slot in an
    order that is balanced over them.

    In rounds of every cell once: the first n rounds, the trials whose replicate is below n, are n
    blocks of each cell, and the same ones of a plan that asks for more.
    """
    order = random.Random(content_hash([cell.cell_id for cell, _ in suspects]))
    starts = {}
    for cell, configs in suspects:
        placed = [(config, software) for config in configs for software in softwares]
        starts[cell.cell_id] = order.sample(placed, len(placed))
    trials: list[Trial] = []
    for replicate in range(blocks):
        for place, (cell, _) in enumerate(order.sample(suspects, len(suspects))):
            for config, software in balanced(starts[cell.cell_id], replicate):
                trial = Trial(
                    cell=cell,
                    config=config,
                    replicate=replicate,
                    twin=0,
                    block=replicate * len(suspects) + place,
                    position=len(trials),
                    cache_generation=min(replicate, suite.new_compute_caches - 1),
                    software=software,
                )
                trials.append(trial)
    return Plan(suite=name, measure=suite.measure, trials=tuple(trials))


def suspects_of(candidates: Sequence[Candidate], whole: Plan) -> list[Suspect]:
    """Their cells and configs, in the plan's order; cells that it has no more are left out."""
    suspect = {
        (each.key.cell_id, None if each.key.metric in OF_EVERY_CONFIG else each.key.settings)
        for each in candidates
    }
    named = [(config, config_name(settings_of(config))) for config in whole.configs()]
    suspects = [
        (cell, [config for config, name in named if suspect & {(cell_id, None), (cell_id, name)}])
        for cell_id, cell in {each.cell.cell_id: each.cell for each in whole.trials}.items()
    ]
    return [(cell, configs) for cell, configs in suspects if configs]


def suite_again(suite: SuiteSpec, candidates: Sequence[Candidate], blocks: int) -> SuiteSpec:
    """Measured as the suite does, but that each block has what the candidates are about."""
    metrics = {candidate.key.metric for candidate in candidates}
    measure = suite.measure.model_copy(
        update={
            "reference_replicates": blocks if ERROR.name in metrics else 0,
            "logged_replicates": blocks if ENGINE.name in metrics else 0,
        }
    )
    caches = blocks if COLD_EMPTY.name in metrics else suite.new_compute_caches
    return suite.model_copy(update={"measure": measure, "new_compute_caches": caches})
