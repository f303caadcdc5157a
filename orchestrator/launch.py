"""A launch: read what is asked, look at the machine, plan, choose the sweep, run it, report."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

from rich.console import Console

from cudnn_sweep.analysis.store import Store
from cudnn_sweep.cluster.launch_file import LaunchFile, read_launch_file
from cudnn_sweep.orchestrator.contrast import verdicts_of
from cudnn_sweep.orchestrator.display import watch
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.every_launch import (
    DONE,
    end_of,
    is_installed,
    modules_to_preload,
    open_results,
    plan_of,
    refuges_of,
    run_rounds,
    session_for,
)
from cudnn_sweep.orchestrator.options import LaunchOptions
from cudnn_sweep.orchestrator.plan import Plan, narrow
from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.progress import Progress
from cudnn_sweep.orchestrator.repeats import repeats_of, told
from cudnn_sweep.orchestrator.report import print_plan, print_summary
from cudnn_sweep.orchestrator.session import Session
from cudnn_sweep.orchestrator.slot import survey
from cudnn_sweep.orchestrator.spec import SweepSpec, choose_suite
from cudnn_sweep.orchestrator.sweep_choice import choose_sweep
from cudnn_sweep.orchestrator.sweep_lock import (
    measuring_lock,
    sweep_lock,
)
from cudnn_sweep.workloads.suite import SuiteSpec, workload_names
from cudnn_sweep.workloads.survey import Survey


def launch(options: LaunchOptions, console: Console) -> int:
    """Returns the exit code: 0 every trial is recorded, 1 not so.

    Raises one of the folders' errors where nothing can start.
    """
    file = read_launch_file(options.file, SweepSpec)
    if file.where != "this_machine":
        return _on_cluster(file, options, console)
    spec = file.sweep
    name, suite = choose_suite(spec, options.suite)
    preload = _preload(spec, suite)
    machine = _look(suite)
    whole = plan_of(name, suite, machine)
    chosen = narrow(whole, list(options.only)) if options.only else whole
    slots = max(1, len(machine.gpus))
    if options.dry_run:
        print_plan(console, options.wish.part(chosen), slots, gpu=bool(machine.gpus))
        return DONE
    location = options.results or spec.results
    store = open_results(location, console)
    choice = choose_sweep(store, whole, chosen, machine.environment, options.wish)
    with sweep_lock(store.location, choice.lock_name):
        # Chosen again under the lock: another launch may just have ended.
        choice = choose_sweep(store, whole, chosen, machine.environment, options.wish)
        console.print(f"Sweep {choice.sweep_id} ({choice.reason})", highlight=False)
        session = session_for(choice, whole, preload)
        again = partial(repeats_of, store, whole, choice)
        progress = Progress()
        if session.plan.trials or again().trials:
            with measuring_lock(machine.gpu_uuids or ["cpu"]):
                progress = _run(session, again, store, slots, machine, spec, console)
        print_summary(console, store, location, choice, session, progress, options)
        return end_of(choice, session, store, progress, console)


def _on_cluster(file: LaunchFile[SweepSpec], options: LaunchOptions, console: Console) -> int:
    from cudnn_sweep.orchestrator.remote.client import (
        launch_on_cluster,
        show_what_would_be_launched,
    )

    if options.dry_run:
        show_what_would_be_launched(file, options, console)
        return DONE
    if file.where == "inside":
        from cudnn_sweep.orchestrator.remote.inside import launch_inside

        return launch_inside(file, options, console)
    return launch_on_cluster(file, options, console)


def _preload(spec: SweepSpec, suite: SuiteSpec) -> tuple[str, ...]:
    """What the launch file names must be there; what the suite names may be missing, as its cells may
    have been narrowed to those that do without.
    """
    for module in spec.preload:
        if not is_installed(module):
            raise SpecError(f"metadata.sweep.preload: {module} is not installed")
    return modules_to_preload(suite, spec.preload)


def _look(suite: SuiteSpec) -> Survey:
    """Ask a process that is thrown away: planning imports no workload and touches no GPU."""
    with ForkServer(survey_only=True) as server:
        machine = survey(server, workload_names(suite))
    if suite.needs_cuda and machine.environment.device != "cuda":
        raise SpecError("the suite needs CUDA (needs_cuda: true); torch finds none on this machine")
    if len(set(machine.gpus)) > 1:
        models = ", ".join(sorted(set(machine.gpus)))
        raise SpecError(f"GPUs of several models: {models}; choose by CUDA_VISIBLE_DEVICES")
    return machine


def _run(
    session: Session,
    again: Callable[[], Plan],
    store: Store,
    slots: int,
    machine: Survey,
    spec: SweepSpec,
    console: Console,
) -> Progress:
    from cudnn_sweep.cluster.local_ray import local_ray

    gpus = len(machine.gpus)
    budget_s = None if spec.budget_minutes is None else spec.budget_minutes * 60
    with local_ray(slots=slots, gpus=gpus, gpu_uuids=machine.gpu_uuids) as ours:
        from cudnn_sweep.orchestrator.tune_host import Host, Slots

        def run(each: Session, budget_s: float | None) -> Progress:
            if repeats := told(each.plan):
                console.print(f"Sweep {each.sweep_id} ({repeats})", highlight=False)
            host = Host(each, results=store.location, slots=Slots(count=slots, gpu=gpus > 0))
            try:
                with watch(
                    console,
                    each.plan,
                    host.progress,
                    lambda: verdicts_of(store, each.sweep_id, each.contrasts),
                ):
                    host.run(Path(mkdtemp(dir=ours.folder)), budget_s)
            finally:
                progress = host.finish(refuges_of(each))
            return progress

        return run_rounds(session, again, run, budget_s)
