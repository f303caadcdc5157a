"""A launch: read what is asked, look at the machine, plan, choose the sweep, run it, report."""

from dataclasses import dataclass
from functools import partial

from rich.console import Console

from cudnn_sweep.analysis.store import Store
from cudnn_sweep.cluster.launch_file import LaunchFile, no_launch_file, read_launch_file
from cudnn_sweep.orchestrator.asked_file import LAUNCH_FILE
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.every_launch import (
    DONE,
    end_of,
    open_results,
    plan_of,
    run_rounds,
    session_for,
    tell_stopped,
    tell_without_gpu,
)
from cudnn_sweep.orchestrator.executor import Executor
from cudnn_sweep.orchestrator.options import LaunchOptions
from cudnn_sweep.orchestrator.plan import Plan, narrow
from cudnn_sweep.orchestrator.progress import Progress
from cudnn_sweep.orchestrator.repeats import repeats_of
from cudnn_sweep.orchestrator.report import print_plan
from cudnn_sweep.orchestrator.say import say
from cudnn_sweep.orchestrator.session import Session
from cudnn_sweep.orchestrator.spec import SweepSpec, cells_named, choose_suite
from cudnn_sweep.orchestrator.summary import Summary, print_summary
from cudnn_sweep.orchestrator.sweep_choice import SweepChoice, Wish, choose_sweep
from cudnn_sweep.orchestrator.sweep_lock import sweep_lock
from cudnn_sweep.orchestrator.this_machine import ThisMachine
from cudnn_sweep.orchestrator.trial_run import try_cells
from cudnn_sweep.workloads.survey import Survey


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """All that a sweep needs to run, decided."""

    whole: Plan
    chosen: Plan
    """What `--only` left of it."""
    machine: Survey
    preload: tuple[str, ...]
    results: str
    """Location, as it was typed."""
    wish: Wish
    budget_minutes: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """A sweep that a launch has run, and what became of it."""

    store: Store
    choice: SweepChoice
    session: Session
    progress: Progress
    exit_code: int


def launch(options: LaunchOptions, console: Console, executor: Executor | None = None) -> int:
    """Returns the exit code: 0 every trial is recorded, 1 not so. `executor`: in place of where the
    launch file says.

    Raises one of the folders' errors where nothing can start.
    """
    file = _launch_file(options)
    if executor is None and file.where != "this_machine":
        return _on_cluster(file, options, console)
    executor = executor or ThisMachine()
    planned = _plan(file, options, executor, console)
    slots = max(1, len(planned.machine.gpus))
    if options.dry_run:
        plan = options.wish.part(planned.chosen)
        print_plan(console, plan, slots, gpu=bool(planned.machine.gpus))
        if options.wish.shard is not None:
            say(console, f"Shard {options.wish.shard} of {len(planned.chosen.trials)} trials.")
        if options.try_cells:
            return try_cells(plan, planned.machine, planned.preload, console)
        return DONE
    ran = run_sweep(planned, executor, console)
    if not options.brief:
        summary = Summary.of(ran.store, ran.choice, ran.session, ran.progress)
        print_summary(console, summary, planned.results, options)
    return ran.exit_code


def run_sweep(planned: Planned, executor: Executor, console: Console) -> Ran:
    """Choose the sweep that this goes on with, or open one, and run what it lacks."""
    store = open_results(planned.results, console)
    whole, environment = planned.whole, planned.machine.environment
    choice = choose_sweep(store, whole, planned.chosen, environment, planned.wish)
    with sweep_lock(store.location, choice.lock_name):
        # Chosen again under the lock: another launch may just have ended.
        choice = choose_sweep(store, whole, planned.chosen, environment, planned.wish)
        say(console, f"Sweep {choice.sweep_id} ({choice.reason})")
        session = session_for(choice, whole, planned.preload)
        again = partial(repeats_of, store, whole, choice)
        progress = Progress()
        if session.plan.trials or again().trials:
            minutes = planned.budget_minutes
            budget_s = None if minutes is None else minutes * 60
            with executor.opened(store, planned.machine, console) as run:
                progress = run_rounds(session, again, run, budget_s)
        tell_stopped(store, progress, console)
        code = end_of(choice, session, store, progress)
    return Ran(store=store, choice=choice, session=session, progress=progress, exit_code=code)


def _launch_file(options: LaunchOptions) -> LaunchFile[SweepSpec]:
    if options.file is None:
        return no_launch_file(LAUNCH_FILE, SweepSpec)
    return read_launch_file(options.file, SweepSpec)


def _plan(
    file: LaunchFile[SweepSpec], options: LaunchOptions, executor: Executor, console: Console
) -> Planned:
    spec = file.sweep
    name, suite = choose_suite(spec, options.suite)
    preload = executor.modules(suite, spec.preload)
    machine = executor.look(suite)
    if not options.brief:
        tell_without_gpu(suite, machine, console)
    with cells_named(file.path, name):
        whole = plan_of(name, suite, machine)
    return Planned(
        whole=whole,
        chosen=narrow(whole, list(options.only)) if options.only else whole,
        machine=machine,
        preload=preload,
        results=options.results or spec.results,
        wish=options.wish,
        budget_minutes=options.budget_minutes or spec.budget_minutes,
    )


def _on_cluster(file: LaunchFile[SweepSpec], options: LaunchOptions, console: Console) -> int:
    from cudnn_sweep.orchestrator.remote.client import (
        launch_on_cluster,
        request_of,
        show_what_would_be_launched,
    )

    if options.try_cells:
        raise SpecError(
            "--try: cells are tried on this machine alone; the launch file names a cluster"
        )
    if options.dry_run:
        show_what_would_be_launched(file, options, console)
        return DONE
    if file.where == "inside":
        from cudnn_sweep.orchestrator.remote.inside import run_inside

        return run_inside(request_of(file, options), console).exit_code
    return launch_on_cluster(file, options, console)
