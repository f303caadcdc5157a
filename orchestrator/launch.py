"""A launch: read what is asked, look at the machine, plan, choose the sweep, run it, report."""

from functools import partial

from rich.console import Console

from cudnn_sweep.cluster.launch_file import LaunchFile, read_launch_file
from cudnn_sweep.orchestrator.every_launch import (
    DONE,
    end_of,
    open_results,
    plan_of,
    run_rounds,
    session_for,
    tell_stopped,
)
from cudnn_sweep.orchestrator.executor import Executor
from cudnn_sweep.orchestrator.options import LaunchOptions
from cudnn_sweep.orchestrator.plan import narrow
from cudnn_sweep.orchestrator.progress import Progress
from cudnn_sweep.orchestrator.repeats import repeats_of
from cudnn_sweep.orchestrator.report import print_plan
from cudnn_sweep.orchestrator.say import say
from cudnn_sweep.orchestrator.spec import SweepSpec, cells_named, choose_suite
from cudnn_sweep.orchestrator.summary import Summary, print_summary
from cudnn_sweep.orchestrator.sweep_choice import choose_sweep
from cudnn_sweep.orchestrator.sweep_lock import sweep_lock
from cudnn_sweep.orchestrator.this_machine import ThisMachine


def launch(options: LaunchOptions, console: Console, executor: Executor | None = None) -> int:
    """Returns the exit code: 0 every trial is recorded, 1 not so. `executor`: in place of where the
    launch file says.

    Raises one of the folders' errors where nothing can start.
    """
    file = read_launch_file(options.file, SweepSpec)
    if executor is None and file.where != "this_machine":
        return _on_cluster(file, options, console)
    executor = executor or ThisMachine()
    spec = file.sweep
    name, suite = choose_suite(spec, options.suite)
    preload = executor.modules(suite, spec.preload)
    machine = executor.look(suite)
    with cells_named(options.file, name):
        whole = plan_of(name, suite, machine)
    chosen = narrow(whole, list(options.only)) if options.only else whole
    slots = max(1, len(machine.gpus))
    if options.dry_run:
        print_plan(console, options.wish.part(chosen), slots, gpu=bool(machine.gpus))
        if options.wish.shard is not None:
            say(console, f"Shard {options.wish.shard} of {len(chosen.trials)} trials.")
        return DONE
    location = options.results or spec.results
    store = open_results(location, console)
    choice = choose_sweep(store, whole, chosen, machine.environment, options.wish)
    with sweep_lock(store.location, choice.lock_name):
        # Chosen again under the lock: another launch may just have ended.
        choice = choose_sweep(store, whole, chosen, machine.environment, options.wish)
        say(console, f"Sweep {choice.sweep_id} ({choice.reason})")
        session = session_for(choice, whole, preload)
        again = partial(repeats_of, store, whole, choice)
        progress = Progress()
        if session.plan.trials or again().trials:
            minutes = options.budget_minutes or spec.budget_minutes
            budget_s = None if minutes is None else minutes * 60
            with executor.opened(store, machine, console) as run:
                progress = run_rounds(session, again, run, budget_s)
        tell_stopped(store, progress, console)
        if not options.brief:
            summary = Summary.of(store, choice, session, progress)
            print_summary(console, summary, location, options)
        return end_of(choice, session, store)


def _on_cluster(file: LaunchFile[SweepSpec], options: LaunchOptions, console: Console) -> int:
    from cudnn_sweep.orchestrator.remote.client import (
        launch_on_cluster,
        request_of,
        show_what_would_be_launched,
    )

    if options.dry_run:
        show_what_would_be_launched(file, options, console)
        return DONE
    if file.where == "inside":
        from cudnn_sweep.orchestrator.remote.inside import run_inside

        return run_inside(request_of(file, options), console).exit_code
    return launch_on_cluster(file, options, console)
