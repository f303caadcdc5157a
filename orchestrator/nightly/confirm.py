"""Measures candidates again, tonight: of two softwares side by side where there is a last good one."""

import secrets
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import monotonic

from rich.console import Console

from cudnn_sweep.analysis.nightly.confirmation import LOOKS, Confirmation, confirm, confirm_category
from cudnn_sweep.analysis.nightly.gate import SELDOM
from cudnn_sweep.analysis.nightly.history import SOFTWARE_AND_COMMIT
from cudnn_sweep.analysis.nightly.judge import Candidate, Remeasured
from cudnn_sweep.analysis.nightly.machines import differences
from cudnn_sweep.analysis.nightly.metric import METRIC_OF, STEADY_DEVICE, STEADY_WALL, Amount
from cudnn_sweep.analysis.nightly.outcome import Change, SeriesKey
from cudnn_sweep.analysis.nightly.remeasured import FreshTrials, read_fresh, wall_of
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.orchestrator.errors import OrchestratorError
from cudnn_sweep.orchestrator.locks.private_folder import scratch_folder
from cudnn_sweep.orchestrator.nightly.confirmation_plan import (
    LAST_GOOD,
    confirmation_plan,
    suite_again,
    suspects_of,
)
from cudnn_sweep.orchestrator.nightly.request import NightRequest
from cudnn_sweep.orchestrator.planning.plan import OWN_SOFTWARE, Plan
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.orchestrator.running.place import NightPlace
from cudnn_sweep.orchestrator.running.run_sweep import plan_of, tell_stopped
from cudnn_sweep.orchestrator.showing.labels import cell_labels
from cudnn_sweep.orchestrator.showing.say import say, warn
from cudnn_sweep.workloads.cells.expand import without_missing
from cudnn_sweep.workloads.survey import Survey

TIME_SHARE = 0.5  # of the night's budget, besides it


def measure_again(
    asked: NightRequest, candidates: Sequence[Candidate], console: Console
) -> dict[SeriesKey, Remeasured]:
    """What fresh trials say of those candidates that are new tonight.

    Nothing of an amount where there is no last good software: its trials join the night's value. Where
    nothing is to be measured: what trials say that an earlier start of this night measured.
    """
    new = [candidate for candidate in candidates if candidate.is_new]
    if not new:
        return {}
    if not asked.options.measure:
        fresh = _read(asked)
        return _answers(new, fresh, fresh.differences(), is_cut=True)
    try:
        return _Confirming(asked, console).of(new)
    except (OrchestratorError, ClusterError) as error:
        warn(console, f"warning: nothing could be measured again: {error}")
        return {}


class _Confirming:
    def __init__(self, asked: NightRequest, console: Console) -> None:
        self._asked = asked
        self._place = place = asked.place
        self._console = console
        self._store = asked.store()
        place.follow_running_jobs()
        self._machine = place.look(asked.suite)
        suite, _ = without_missing(asked.suite, self._machine.workloads)
        self._whole = plan_of(asked.request.suite_name, suite, self._machine)
        last_good = asked.keys.last_good
        self._good = None if last_good is None else Path(last_good)
        self._of_two = (
            None if self._good is None else _differences(self._good, place, self._machine)
        )
        minutes = asked.request.budget_minutes or asked.keys.budget_minutes
        self._ends = monotonic() + TIME_SHARE * minutes * 60

    def of(self, candidates: Sequence[Candidate]) -> dict[SeriesKey, Remeasured]:
        """Each look adds blocks, of what is not settled by then."""
        found: dict[SeriesKey, Remeasured] = {}
        waiting = list(candidates)
        suite = suite_again(self._asked.suite, candidates, max(LOOKS))
        suspects = suspects_of(candidates, self._whole)
        softwares = (OWN_SOFTWARE,) if self._of_two is None else (OWN_SOFTWARE, LAST_GOOD)
        with self._place.opened(self._store, self._machine, self._console) as run:
            for look in LOOKS:
                plan = confirmation_plan(
                    self._asked.request.suite_name,
                    suite,
                    suspects,
                    blocks=look,
                    softwares=softwares,
                )
                left_s = self._ends - monotonic()
                todo = self._lacking(plan, waiting)
                if todo.trials and left_s > 0:
                    self._tell(todo)
                    session = self._session(plan, todo)
                    tell_stopped(self._store, run(session, left_s), self._console)
                is_cut = monotonic() > self._ends
                found |= _answers(waiting, _read(self._asked), self._of_two, is_cut=is_cut)
                waiting = [
                    each
                    for each in waiting
                    if each.key in found and found[each.key].confirmation.more_blocks
                ]
                if not waiting or self._of_two is None or left_s <= 0:
                    break
        shutil.rmtree(scratch_folder(self._confirm_id), ignore_errors=True)
        return found

    def _lacking(self, plan: Plan, waiting: Sequence[Candidate]) -> Plan:
        """What of the plan is not recorded, of cells that are not settled."""
        cells = {each.key.cell_id for each in waiting}
        done = set(self._store.stored_trials(self._confirm_id))
        others = {each.trial_id for each in plan.trials if each.cell.cell_id not in cells}
        return plan.without(done | others)

    def _tell(self, plan: Plan) -> None:
        cells = cell_labels(trial.cell for trial in plan.trials).values()
        say(self._console, f"Measuring again, {len(plan.trials)} trials: {', '.join(cells)}")

    @property
    def _confirm_id(self) -> str:
        return self._asked.name.confirm_id

    def _session(self, plan: Plan, todo: Plan) -> Session:
        return Session(
            sweep_id=self._confirm_id,
            launch_id=f"launch-{secrets.token_hex(4)}",
            plan=todo,
            plan_hash=plan.plan_hash,
            plan_trials=len(plan.trials),
            retries={},
            scratch=scratch_folder(self._confirm_id),
            folder=Path.cwd(),
            preload=self._place.modules(self._asked.suite, self._asked.request.preload),
            pythons={} if self._good is None else {LAST_GOOD: self._good},
        )


def _read(asked: NightRequest) -> FreshTrials:
    name = asked.name
    return read_fresh(asked.store(), name.launch, name.confirm_id, asked.contrasts)


def _answers(
    candidates: Sequence[Candidate],
    fresh: FreshTrials,
    of_two: tuple[Change, ...] | None,
    *,
    is_cut: bool,
) -> dict[SeriesKey, Remeasured]:
    """`is_cut`: the time was up, so that what there is too little of may just not have had its turn."""
    answers = ((each.key, _answer(each, fresh, of_two, is_cut=is_cut)) for each in candidates)
    return {key: answer for key, answer in answers if answer is not None}


def _answer(
    candidate: Candidate, fresh: FreshTrials, of_two: tuple[Change, ...] | None, *, is_cut: bool
) -> Remeasured | None:
    metric = METRIC_OF[candidate.key.metric]
    if not isinstance(metric, Amount):
        return _answer_of_words(candidate, fresh, of_two, is_cut=is_cut)
    if of_two is None:
        return None
    found = confirm(fresh.log_ratios(candidate.key), metric.min_effect)
    if found.blocks < min(LOOKS):  # time was up: what so few say is no look
        found = replace(found, state="undecided")
    return Remeasured(confirmation=found, of_two=of_two, wall=_wall(candidate.key, fresh, found))


def _wall(key: SeriesKey, fresh: FreshTrials, of_device: Confirmation) -> Confirmation | None:
    """None where wall time has not the same pairs."""
    if key.metric != STEADY_DEVICE.name:
        return None
    found = confirm(fresh.log_ratios(wall_of(key)), STEADY_WALL.min_effect)
    return found if found.blocks == of_device.blocks else None


def _answer_of_words(
    candidate: Candidate, fresh: FreshTrials, of_two: tuple[Change, ...] | None, *, is_cut: bool
) -> Remeasured:
    """The software is the cause where trials of the last good one are as they were."""
    key, before = candidate.key, str(candidate.before)
    words = [_usual(word, candidate) for word in fresh.words(key)]
    good = [_usual(word, candidate) for word in fresh.words(key, LAST_GOOD)]
    found = confirm_category(words, before)
    if key.metric == "missing" and not words:
        found = Confirmation(state="confirmed")
    if is_cut and key.metric != "sign" and len(words) < min(LOOKS):
        found = replace(found, state="undecided")
    is_software = found.state == "confirmed" and set(good) == {before}
    return Remeasured(confirmation=found, of_two=of_two if is_software else None)


def _differences(python: Path, place: NightPlace, machine: Survey) -> tuple[Change, ...] | None:
    """In what tonight's software differs from the last good one; None where it does not."""
    good = place.last_good(python)
    if good.software_hash == machine.environment.software_hash:
        return None
    return differences(asdict(good), asdict(machine.environment), SOFTWARE_AND_COMMIT)


def _usual(word: str, candidate: Candidate) -> str:
    """One of the words that were usual before stands for them all."""
    before = [point.value for point in candidate.series.points[: candidate.since]]
    return str(candidate.before) if before.count(word) >= SELDOM * len(before) > 0 else word
