"""Plans a sweep for this machine or a cluster, and runs the sweep's missing trials."""

import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import Protocol, TypeAlias

from rich.console import Console

from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.analysis.store.progress import MOST_REPEATS, blocks_of
from cudnn_sweep.analysis.store.store import Store, open_store
from cudnn_sweep.analysis.words import two_digits
from cudnn_sweep.orchestrator.doctor.checks import Check
from cudnn_sweep.orchestrator.errors import SpecError, UnfinishedError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.locks.sweep_lock import sweep_lock
from cudnn_sweep.orchestrator.planning.decided import contrasts_of, deciding_in, stopped_cells
from cudnn_sweep.orchestrator.planning.plan import (
    Plan,
    Trial,
    first_blocks,
    first_calls,
    make_plan,
    narrow,
    with_alternate_caches,
)
from cudnn_sweep.orchestrator.planning.request import Planned, SweepRequest
from cudnn_sweep.orchestrator.planning.session import Session, modules_to_preload
from cudnn_sweep.orchestrator.planning.spec import LAUNCH_FILE, cells_named
from cudnn_sweep.orchestrator.planning.sweep_selection import choose_sweep
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.orchestrator.terminal.say import say, warn
from cudnn_sweep.orchestrator.terminal.summary import Summary
from cudnn_sweep.workloads.cells.executable import execution_fault, ranks_fault
from cudnn_sweep.workloads.cells.expand import configs_of_cells, expand_cells, without_missing
from cudnn_sweep.workloads.cells.measurement import TrialRequest
from cudnn_sweep.workloads.cells.suite import BY_DEFAULT, FIXED_BLOCKS, SuiteSpec
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.survey import Survey

END_S = 3.0  # time to write records, end Ray and make the summary
RunSession: TypeAlias = Callable[[Session, float | None], Progress]
"""Function that runs a session's trials, with a time limit in seconds or None."""


class Place(Protocol):
    """This machine or a cluster, on which the trials of a sweep run."""

    def look(self, suite: SuiteSpec, *, needs_cuda: bool = False) -> Survey:
        """Collect facts about the place. Raises SpecError if the suite cannot run there."""

    def call(self, trials: Sequence[TrialRequest], machine: Survey, console: Console) -> None:
        """Call each trial's model once. Raises SpecError or ModelError if this fails."""

    def announce(self, session: Session, reason: str, console: Console) -> None:
        """Print which session runs next, and why."""

    def opened(
        self, store: Store, machine: Survey, console: Console
    ) -> AbstractContextManager[RunSession]:
        """Yield a function that runs a session. Raises SweepBusyError if the place is in use."""

    def last_good(self, python: Path) -> Environment:
        """Return the environment of the interpreter `python`. Raises ServerError or SpecError."""

    def checks(self, results: str) -> Iterator[Check]:
        """Yield the checks that are made before a night."""


@dataclass(frozen=True, kw_only=True)
class Ran(Summary):
    """A sweep that a launch has run, and how it ended."""

    @cached_property
    def exit_code(self) -> ExitCode:
        if not self.is_complete:
            return ExitCode.UNFINISHED
        fails = self.session.cells_without_ok(self.stored)
        return ExitCode.DOES_NOT_RUN if fails else ExitCode.FINE

    def check_not_stopped(self, *, is_decided: bool) -> None:
        """Raise UnfinishedError if the sweep was stopped, unless it is decided and has records."""
        if self.progress.stopped and not (is_decided and self.stored):
            raise UnfinishedError(f"stopped: {self.progress.stopped}; run the command again")


def plan_sweep(request: SweepRequest, place: Place) -> Planned:
    """Survey a place and plan a sweep. Raises SpecError if the suite cannot run there."""
    preload = modules_to_preload(request.suite, request.preload)
    return planned_on(place.look(request.suite), request, preload)


def planned_on(machine: Survey, request: SweepRequest, preload: tuple[str, ...] = ()) -> Planned:
    """Plan a sweep for a machine. Raises SpecError for a mistake in the suite's cells."""
    name, suite, only = request.suite_name, request.suite, request.options.choices
    with cells_named(request.options.file or LAUNCH_FILE, name):
        skipped: dict[str, str] = {}
        if request.may_skip:
            suite, skipped = without_missing(suite, machine.workloads, machine.compiler)
        whole = plan_of(name, suite, machine)
    if request.job is not None:
        whole = with_alternate_caches(whole)
    chosen = narrow(whole, only) if only else whole
    if suite.replicates is None and whole.looks and not chosen.looks:
        chosen = first_blocks(chosen, FIXED_BLOCKS)
    return Planned(
        request=request,
        machine=machine,
        preload=preload,
        whole=whole,
        chosen=chosen,
        skipped=skipped,
    )


def run_sweep(
    planned: Planned,
    place: Place,
    console: Console,
    if_cut: Callable[[Ran], object] = lambda ran: None,
) -> Ran:
    """Run the missing trials of a sweep. Call `if_cut` if the run is interrupted."""
    request, machine = planned.request, planned.machine
    store = open_results(request.results, console)

    with sweep_lock(store.location, choose_sweep(store, planned).lock_name):
        # 1. Choose the sweep again, because another launch may have ended before the lock.
        session = choose_sweep(store, planned)
        sweep = OpenSweep(
            session=session, store=store, whole=planned.whole, place=place, console=console
        )

        kept = {session.sweep_id, *store.sweep_ids()}
        for left in session.scratch.parent.glob(f"*{session.scratch.suffix}"):
            if left.stem.partition("-shard-")[0] not in kept:  # left by a launch that was killed
                shutil.rmtree(left, ignore_errors=True)

        # 2. Call each model once, and announce the session.
        if not request.codes and not request.may_skip and sweep.lacks_anything():
            place.call(first_calls(planned.chosen), machine, console)
        place.announce(session, session.reason, console)
        sweep = replace(sweep, session=_limited(session, request, len(machine.gpus), console))

        # 3. Run the missing trials, and repeat split blocks.
        progress = Progress()
        if sweep.lacks_anything() or sweep.repeats().trials:
            try:
                with place.opened(store, machine, console) as run, _results_needed():
                    progress = sweep.run_rounds(run, _seconds(request))
            except (KeyboardInterrupt, UnfinishedError) as error:
                with suppress(AnalysisError):  # unreadable results do not change the exit code
                    cut = Ran(store=store, session=session, progress=progress)
                    is_lost = isinstance(error, UnfinishedError)
                    if is_lost and not sweep.repeats().trials and cut.is_complete:
                        warn(console, "Ray ended early, but every trial was recorded.")
                        return sweep.ended(progress)
                    if cut.stored:
                        if_cut(cut)
                raise

        # 4. Report why it stopped, and what is recorded.
        tell_stopped(store, progress, console)
        with _results_needed():
            return sweep.ended(progress)


@dataclass(frozen=True, kw_only=True)
class OpenSweep:
    """A sweep that this launch has locked."""

    session: Session
    store: Store
    whole: Plan
    place: Place
    console: Console

    def lacks_anything(self) -> bool:
        session = self.session
        decided = stopped_cells(self.store, session) if session.resumed else set()
        return any(
            trial.cell.cell_id not in decided or trial.trial_id in session.retries
            for trial in session.plan.trials
        )

    def run_rounds(self, run: RunSession, budget_s: float | None) -> Progress:
        """Run the plan. Then repeat blocks that were split, at most MOST_REPEATS times."""
        ends = math.inf if budget_s is None else monotonic() + budget_s
        progress = Progress()
        plan = self.session.plan if self.session.plan.trials else self.repeats()
        for _ in range(1 + MOST_REPEATS):
            left_s = ends - monotonic()
            if not plan.trials or left_s <= 0:
                break
            part = replace(self.session, plan=plan)
            if repeated := {trial.repeats_block for trial in plan.trials} - {None}:
                reason = f"whole repeats of split blocks: {len(repeated)}"
                self.place.announce(part, reason, self.console)
            for alike in part.by_ranks():
                left_s = ends - monotonic()
                if not progress.stopped and left_s > 0:
                    progress = progress.then(run(alike, None if budget_s is None else left_s))
            if progress.stopped:
                break  # the results may be unreadable
            plan = self.repeats()
        return progress

    def repeats(self) -> Plan:
        """Return a plan that repeats the blocks that were split over GPUs or launches.

        Only trials of the same repeat are compared. Sweeps that run until decided repeat no blocks.
        """
        own = self.session.own
        if self.whole.looks:
            return replace(own, trials=())
        blocks = blocks_of(self.store.stored_trials(self.session.sweep_id).values())
        waiting = {split.block: split for split in blocks.split if split.waits}
        repeats: list[Trial] = []
        for block, trials in own.blocks():
            if block in waiting and waiting[block].trials == len(trials):
                repeats += _repeat(self.whole, trials, waiting[block].repeats + 1)
        return replace(own, trials=tuple(repeats))

    def ended(self, progress: Progress) -> Ran:
        """Return how the sweep ended. Remove its scratch folder if it is complete."""
        ran = Ran(store=self.store, session=self.session, progress=progress)
        if ran.is_complete:
            shutil.rmtree(self.session.scratch, ignore_errors=True)
        return ran


@contextmanager
def _results_needed() -> Iterator[None]:
    """Raise UnfinishedError if the results cannot be read any more."""
    try:
        yield
    except AnalysisError as error:
        kept = "recorded trials are kept; launch again to resume once the results can be read"
        raise UnfinishedError(f"the results became unreadable: {error}; {kept}") from error


def _limited(session: Session, request: SweepRequest, gpus: int, console: Console) -> Session:
    """Return the session, set to run cell by cell if the time is too short for all cells."""
    left_s, first = _seconds(request), session.plan.first_look()
    cells = len(first.cell_ids())
    if request.launched_at is None or left_s is None or not cells:
        return session
    share = left_s / first.estimated_s(max(1, gpus), gpu=gpus > 0)
    reached = min(int(cells * share), cells)
    enough = f"The {two_digits(left_s / 60)} minutes left are probably enough for a first verdict"
    say(console, f"{enough} in {reached} of {cells} cells.")
    return replace(session, cell_by_cell=reached < cells)


def _seconds(request: SweepRequest) -> float | None:
    """Return the remaining seconds of the budget, or None if there is no limit."""
    if request.budget_minutes is None:
        return None
    spent_s = END_S + monotonic() - request.launched_at if request.launched_at else 0.0
    return max(1.0, request.budget_minutes * 60 - spent_s)  # one block runs in any case


def plan_of(name: str, suite: SuiteSpec, machine: Survey) -> Plan:
    facts, device, gpu = machine.workloads, machine.environment.device, machine.environment.gpu
    cells = expand_cells(suite, facts, device=device, gpu=gpu)
    suite = suite.on(device)
    own = configs_of_cells(suite, facts, device=device, gpu=gpu)
    if suite.replicates is None:
        suite = suite.with_blocks(BY_DEFAULT if contrasts_of(suite.every_config) else FIXED_BLOCKS)
    plan = make_plan(name, suite, cells, own)
    for trial in plan.trials:
        traits = facts[trial.cell.workload]
        fault = trial.config.execution and execution_fault(
            trial.cell, trial.config, traits, device=device, compiler=machine.compiler
        )
        fault = fault or ranks_fault(
            trial.cell,
            trial.config,
            traits,
            gpus=len(machine.gpus),
            machine=machine.environment,
        )
        if fault:
            raise SpecError(f"suite {name}: {fault}")
    if plan.looks and not deciding_in(plan):
        of_named = f" among {', '.join(plan.decided_by)}" if plan.decided_by else ""
        found = f"{len(plan.configs())} configs of which no two differ in one setting{of_named}"
        until, found = ("best", "one config") if plan.is_race else ("decided", found)
        raise SpecError(
            f"suite {name}: `replicates: {{until: {until}}}` would decide nothing: found {found}; "
            "give a number"
        )
    return plan


def open_results(location: str, console: Console) -> Store:
    store = open_store(location)
    store.check_writable()
    for torn in store.set_aside_torn():
        warn(console, f"warning: a damaged or foreign file was set aside: {torn}")
    return store


def tell_stopped(store: Store, progress: Progress, console: Console) -> None:
    """Print why the sweep stopped, and which folders contain records that were not stored."""
    if not progress.stopped:
        return
    say(console, f"\nStopped: {progress.stopped}", "bold red")
    for folder, count in progress.kept_in.items():
        say(
            console,
            f"{count} finished trials are kept in {folder}: copy its content into the results "
            f"({store.location}) and launch again.",
        )
    if lost := progress.held - sum(progress.kept_in.values()):
        text = f"{lost} finished trials could not be stored anywhere and are lost."
        say(console, text, "bold red")


def _repeat(whole: Plan, trials: list[Trial], number: int) -> list[Trial]:
    """Return new trials that repeat a block. `number` counts the block's repeats from 1."""
    last = whole.trials[-1]
    replicates = 1 + max(trial.replicate for trial in whole.trials)
    replicate = trials[0].replicate + number * replicates
    # a repeat begins a new compute cache if the block began one
    new_cache = trials[0].cache_generation == trials[0].replicate
    return [
        replace(
            trial,
            replicate=replicate,
            block=trial.block + number * (last.block + 1),
            position=trial.position + number * (last.position + 1),
            cache_generation=replicate if new_cache else trial.cache_generation,
            repeats_block=trial.block,
        )
        for trial in trials
    ]
