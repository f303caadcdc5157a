"""A launch: read what is asked, look at the machine, plan, choose the sweep, run it, report."""

import secrets
import shutil
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from cudnn_sweep.analysis.store import Store, open_store
from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.contrast import contrasts_of, verdicts_of
from cudnn_sweep.orchestrator.display import watch
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.options import LaunchOptions
from cudnn_sweep.orchestrator.plan import Plan, make_plan, narrow
from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.progress import Progress
from cudnn_sweep.orchestrator.report import print_plan, print_stopped, print_summary
from cudnn_sweep.orchestrator.session import Session
from cudnn_sweep.orchestrator.slot import survey
from cudnn_sweep.orchestrator.spec import SweepSpec, choose_suite
from cudnn_sweep.orchestrator.sweep_choice import SweepChoice, choose_sweep
from cudnn_sweep.orchestrator.sweep_lock import (
    measuring_lock,
    our_temporary_folder,
    sweep_lock,
)
from cudnn_sweep.workloads.expand import expand_cells
from cudnn_sweep.workloads.suite import SuiteSpec, workload_names
from cudnn_sweep.workloads.survey import Survey

DONE, UNFINISHED = 0, 1  # exit codes


def launch(options: LaunchOptions, console: Console) -> int:
    """Returns the exit code: 0 every trial is recorded, 1 not so.

    Raises one of the folders' errors where nothing can start.
    """
    spec = _read(options)
    name, suite = choose_suite(spec, options.suite)
    preload = _preload(spec, suite)
    machine = _look(suite)
    whole = _plan(name, suite, machine)
    chosen = narrow(whole, list(options.only)) if options.only else whole
    slots = max(1, len(machine.gpus))
    if options.dry_run:
        print_plan(console, chosen, slots, gpu=bool(machine.gpus))
        return DONE
    location = options.results or spec.results
    store = _open(location, console)
    choice = choose_sweep(store, whole, chosen, machine.environment, options.wish)
    with sweep_lock(store.location, choice.plan_hash):
        # Chosen again under the lock: another launch may just have ended.
        choice = choose_sweep(store, whole, chosen, machine.environment, options.wish)
        console.print(f"Sweep {choice.sweep_id} ({choice.reason})", highlight=False)
        session = _session(choice, whole, preload)
        progress = Progress()
        if session.plan.trials:
            with measuring_lock(machine.gpu_uuids or ["cpu"]):
                progress = _run(session, store, slots, machine, spec, console)
        print_summary(console, location, session, progress, options)
        return _end(session, store, progress, console)


def _read(options: LaunchOptions) -> SweepSpec:
    file = read_launch_file(options.file, SweepSpec)
    if file.where != "this_machine":
        raise SpecError(
            f"{options.file} asks for a cluster; this version runs on this machine alone: "
            "leave out `provider` and `metadata.sweep.address`"
        )
    return file.sweep


def _preload(spec: SweepSpec, suite: SuiteSpec) -> tuple[str, ...]:
    """What the launch file names must be there; what the suite names may be missing, as its cells may
    have been narrowed to those that do without.
    """
    for module in spec.preload:
        if not _installed(module):
            raise SpecError(f"metadata.sweep.preload: {module} is not installed")
    return tuple(dict.fromkeys([*filter(_installed, suite.preload), *spec.preload]))


def _installed(module: str) -> bool:
    return find_spec(module.partition(".")[0]) is not None


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


def _plan(name: str, suite: SuiteSpec, machine: Survey) -> Plan:
    where = machine.environment
    cells = expand_cells(suite, machine.workloads, device=where.device, gpu=where.gpu)
    return make_plan(name, suite, cells)


def _open(location: str, console: Console) -> Store:
    store = open_store(location)
    store.check_writable()
    for torn in store.set_aside_torn():
        warning = f"warning: a half-written file was set aside: {torn}"
        console.print(warning, style="yellow", markup=False, highlight=False, soft_wrap=True)
    return store


def _session(choice: SweepChoice, whole: Plan, preload: tuple[str, ...]) -> Session:
    scratch = our_temporary_folder() / choice.sweep_id
    return Session(
        sweep_id=choice.sweep_id,
        launch_id=f"launch-{secrets.token_hex(4)}",
        plan=choice.todo,
        contrasts=contrasts_of(whole.configs()),
        plan_hash=choice.plan_hash,
        plan_trials=choice.plan_trials,
        retries=choice.retries,
        scratch=scratch,
        folder=Path.cwd(),
        preload=preload,
    )


def _run(
    session: Session, store: Store, slots: int, machine: Survey, spec: SweepSpec, console: Console
) -> Progress:
    from cudnn_sweep.cluster.local_ray import local_ray

    gpus = len(machine.gpus)
    budget_s = None if spec.budget_minutes is None else spec.budget_minutes * 60
    with local_ray(slots=slots, gpus=gpus) as ours:
        from cudnn_sweep.orchestrator.tune_host import Host, Slots

        host = Host(session, results=store.location, slots=Slots(count=slots, gpu=gpus > 0))
        try:
            with watch(
                console,
                session.plan,
                host.progress,
                lambda: verdicts_of(store, session.sweep_id, session.contrasts),
            ):
                host.run(ours.folder / "tune", budget_s)
        finally:
            progress = host.finish(_refuges(session))
    return progress


def _refuges(session: Session) -> list[Path]:
    """Where records may go that the results location does not take: other disks, or memory."""
    places = (our_temporary_folder(), Path("/dev/shm"), Path.home())
    return [place / f"sweep-held-{session.launch_id}" for place in places]


def _end(session: Session, store: Store, progress: Progress, console: Console) -> int:
    if progress.stopped:
        print_stopped(console, store.location, progress)
    if len(store.stored_trials(session.sweep_id)) < session.plan_trials:
        return UNFINISHED
    shutil.rmtree(session.scratch, ignore_errors=True)
    return DONE
