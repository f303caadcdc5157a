"""What every launch does, wherever its trials run: plan, results, session, end."""

import secrets
import shutil
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from cudnn_sweep.analysis.store import Store, open_store
from cudnn_sweep.orchestrator.contrast import contrasts_of
from cudnn_sweep.orchestrator.plan import Plan, make_plan
from cudnn_sweep.orchestrator.progress import Progress
from cudnn_sweep.orchestrator.report import print_stopped
from cudnn_sweep.orchestrator.session import Session
from cudnn_sweep.orchestrator.sweep_choice import SweepChoice
from cudnn_sweep.orchestrator.sweep_lock import our_temporary_folder
from cudnn_sweep.workloads.expand import expand_cells
from cudnn_sweep.workloads.suite import SuiteSpec
from cudnn_sweep.workloads.survey import Survey

DONE, UNFINISHED = 0, 1  # exit codes


def plan_of(name: str, suite: SuiteSpec, machine: Survey) -> Plan:
    where = machine.environment
    cells = expand_cells(suite, machine.workloads, device=where.device, gpu=where.gpu)
    return make_plan(name, suite, cells)


def modules_to_preload(suite: SuiteSpec, own: Iterable[str]) -> tuple[str, ...]:
    """Of the suite's those that are installed, and the user's own."""
    return tuple(dict.fromkeys([*filter(is_installed, suite.preload), *own]))


def is_installed(module: str) -> bool:
    return find_spec(module.partition(".")[0]) is not None


def open_results(location: str, console: Console) -> Store:
    store = open_store(location)
    store.check_writable()
    for torn in store.set_aside_torn():
        warning = f"warning: a half-written file was set aside: {torn}"
        console.print(warning, style="yellow", markup=False, highlight=False, soft_wrap=True)
    return store


def session_for(choice: SweepChoice, whole: Plan, preload: tuple[str, ...]) -> Session:
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


def refuges_of(session: Session) -> list[Path]:
    """Where records may go that the results location does not take: other disks, or memory."""
    places = (our_temporary_folder(), Path("/dev/shm"), Path.home())
    return [place / f"sweep-held-{session.launch_id}" for place in places]


def end_of(session: Session, store: Store, progress: Progress, console: Console) -> int:
    if progress.stopped:
        print_stopped(console, store.location, progress)
    if len(store.stored_trials(session.sweep_id)) < session.plan_trials:
        return UNFINISHED
    shutil.rmtree(session.scratch, ignore_errors=True)
    return DONE
