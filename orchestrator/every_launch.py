"""What every launch does, wherever its trials run: plan, results, session, end."""

import math
import secrets
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from time import monotonic

from rich.console import Console

from cudnn_sweep.analysis.progress import MOST_REPEATS
from cudnn_sweep.analysis.store import Store, open_store
from cudnn_sweep.orchestrator.contrast import contrasts_of
from cudnn_sweep.orchestrator.errors import OrchestratorError
from cudnn_sweep.orchestrator.plan import Plan, make_plan
from cudnn_sweep.orchestrator.private_folder import our_temporary_folder, scratch_folder
from cudnn_sweep.orchestrator.progress import Progress
from cudnn_sweep.orchestrator.report import print_stopped
from cudnn_sweep.orchestrator.say import say, warn
from cudnn_sweep.orchestrator.session import Session
from cudnn_sweep.orchestrator.sweep_choice import SweepChoice
from cudnn_sweep.workloads.expand import expand_cells
from cudnn_sweep.workloads.suite import SuiteSpec
from cudnn_sweep.workloads.survey import Survey

DONE, UNFINISHED, CELL_FAILED = 0, 1, 4  # exit codes; a night's 3 is its own


def plan_of(name: str, suite: SuiteSpec, machine: Survey) -> Plan:
    where = machine.environment
    cells = expand_cells(suite, machine.workloads, device=where.device, gpu=where.gpu)
    return make_plan(name, suite.on(where.device), cells)


def tell_without_gpu(suite: SuiteSpec, machine: Survey, console: Console) -> None:
    """What a run is for where flags do nothing."""
    if machine.environment.device == "cuda":
        return
    short = suite.on("cpu")
    less = short.replicates < suite.replicates
    line = "No GPU here: cuDNN's flags have no effect, so this only shows what a sweep does"
    more = f", in {short.replicates} replicates instead of {suite.replicates}" if less else ""
    say(console, f"{line}{more}.")


def modules_to_preload(suite: SuiteSpec, own: Iterable[str]) -> tuple[str, ...]:
    """Of the suite's those that are installed, and the user's own."""
    return tuple(dict.fromkeys([*filter(is_installed, suite.preload), *own]))


def is_installed(module: str) -> bool:
    try:
        return find_spec(module.partition(".")[0]) is not None
    except ValueError:  # no name of a module, or __main__
        return False


def open_results(location: str, console: Console) -> Store:
    store = open_store(location)
    store.check_writable()
    for torn in store.set_aside_torn():
        warn(console, f"warning: a damaged or foreign file was set aside: {torn}")
    return store


def session_for(choice: SweepChoice, whole: Plan, preload: tuple[str, ...]) -> Session:
    shard = f"-shard-{choice.shard.number}-of-{choice.shard.of}" if choice.shard else ""
    return Session(
        sweep_id=choice.sweep_id,
        launch_id=f"launch-{secrets.token_hex(4)}",
        plan=choice.todo,
        contrasts=contrasts_of(whole.configs()),
        plan_hash=choice.plan_hash,
        plan_trials=choice.plan_trials,
        shard=choice.shard,
        retries=choice.retries,
        scratch=scratch_folder(f"{choice.sweep_id}{shard}"),
        folder=Path.cwd(),
        preload=preload,
    )


def run_rounds(
    session: Session,
    again: Callable[[], Plan],
    run: Callable[[Session, float | None], Progress],
    budget_s: float | None,
) -> Progress:
    """The session's plan, then `again`: what is to be run once more, until that is nothing.

    `run` is given a session and the seconds in which a new block may still start.
    """
    ends = math.inf if budget_s is None else monotonic() + budget_s
    progress = Progress()
    plan = session.plan if session.plan.trials else again()
    for _ in range(1 + MOST_REPEATS):
        left_s = ends - monotonic()
        if not plan.trials or progress.stopped or left_s <= 0:
            break
        each = replace(session, plan=plan)
        progress = progress.then(run(each, None if budget_s is None else left_s))
        if progress.stopped:  # the results may not even be read then
            break
        plan = again()
    return progress


def refuges_of(session: Session) -> list[Path]:
    """Where records may go that the results location does not take: other disks, or memory."""
    places = [Path("/dev/shm"), Path.home()]
    with suppress(OrchestratorError):  # then elsewhere
        places.insert(0, our_temporary_folder())
    return [place / f"sweep-held-{session.launch_id}" for place in places]


def tell_stopped(store: Store, progress: Progress, console: Console) -> None:
    """Before anything is read of the results: where records are kept that these did not take."""
    if progress.stopped:
        print_stopped(console, store.location, progress)


def end_of(choice: SweepChoice, session: Session, store: Store, progress: Progress) -> int:
    stored = store.stored_trials(session.sweep_id).values()
    if choice.lacks(stored, progress.hopeless):
        return UNFINISHED
    shutil.rmtree(session.scratch, ignore_errors=True)
    return CELL_FAILED if choice.cells_without_ok(stored) else DONE
