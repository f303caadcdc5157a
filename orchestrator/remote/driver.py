"""The driver of a launch on a cluster. It prints text, and events that the user's command reads."""

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import NoReturn

import ray
from rich.console import Console

from cudnn_sweep.analysis.store.location import Location
from cudnn_sweep.analysis.store.store import Store
from cudnn_sweep.cluster.jobs.jobs import refuse_open_ray
from cudnn_sweep.orchestrator.doctor.checks import Check, check_storage
from cudnn_sweep.orchestrator.errors import MISTAKES, NeedsGpuError, SpecError, exit_code_of
from cudnn_sweep.orchestrator.gpus.choice import model_asked, models_missing, share_of
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.orchestrator.remote.job import (
    HEAD_FOLDER,
    RECORDS,
    VARIABLES,
    Ended,
    Event,
    JobRequest,
    Progressed,
    Recorded,
    Started,
    SweepStatus,
    read_request,
    to_line,
)
from cudnn_sweep.orchestrator.remote.nodes import (
    NO_CUDA,
    Node,
    look_at_last_good,
    look_at_nodes,
    wait_for_nodes,
)
from cudnn_sweep.orchestrator.running.run_sweep import RunSession, plan_sweep, run_sweep
from cudnn_sweep.orchestrator.slots.tune_host import Host, Slots, alive_nodes
from cudnn_sweep.orchestrator.terminal.display import now_and_then
from cudnn_sweep.orchestrator.terminal.say import PLAIN_WIDTH, say
from cudnn_sweep.orchestrator.terminal.summary import print_summary
from cudnn_sweep.workloads.cells.cell import ONE_RANK
from cudnn_sweep.workloads.cells.measurement import TrialRequest
from cudnn_sweep.workloads.cells.suite import GpuChoice, SuiteSpec, as_list, workload_names
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.survey import Survey


class TheseNodes:
    """The nodes of a cluster as a Place."""

    def __init__(self, nodes: list[Node], choice: GpuChoice) -> None:
        self._nodes = nodes
        self._choice = choice
        self._sweeps: dict[str, SweepStatus] = {}

    def look(self, suite: SuiteSpec, *, needs_cuda: bool = False) -> Survey:
        """Return the survey of one node. Raises SpecError if a trial needs several ranks."""
        counts = {count for axes in suite.cells for count in as_list(axes.ranks)} - {ONE_RANK}
        if counts:  # a slot has one GPU
            raise SpecError(
                f"ranks: found {', '.join(sorted(counts))}, allowed on a cluster: {ONE_RANK}; "
                "launch on a machine with a GPU for each rank"
            )
        return self._nodes[0].machine

    def call(self, trials: Sequence[TrialRequest], machine: Survey, console: Console) -> None:
        """Do nothing, because the first trials show whether a model fails."""

    def announce(self, session: Session, reason: str, console: Console) -> None:
        sweep = SweepStatus(sweep_id=session.sweep_id)
        sweep = self._sweeps.setdefault(session.launch_id, sweep)
        sweep.trials_planned += len(session.plan.trials)
        plan, contrasts = session.plan, session.contrasts
        emit(Started(sweep_id=session.sweep_id, reason=reason, plan=plan, contrasts=contrasts))

    def last_good(self, python: Path) -> Environment:
        return look_at_last_good(self._nodes, python)

    def checks(self, results: str) -> Iterator[Check]:
        yield from check_storage(results)

    @contextmanager
    def opened(self, store: Store, machine: Survey, console: Console) -> Iterator[RunSession]:
        def run(session: Session, budget_s: float | None, /) -> Progress:
            if session.launch_id not in self._sweeps:  # fresh trials of a night
                self.announce(session, "", console)
            sweep = self._sweeps[session.launch_id]
            nodes = left_of(self._nodes, alive_nodes())
            slots = Slots(
                count=share_of(self._choice, sum(node.accelerators for node in nodes)),
                gpu=True,
                nodes={node.node_id: node.address for node in nodes},
            )
            # workers on a node start in the node's copy of the user's files
            session = replace(session, folder=Path())
            host = Host(session, results=store.location, slots=slots, followed=True)
            with tempfile.TemporaryDirectory(prefix="sweep-tune-") as tune_folder:
                try:
                    with now_and_then(lambda: self._show(sweep, host), every_s=1.0):
                        host.run(Path(tune_folder), budget_s)
                    host.recorder.launch_ended.remote()  # the recorder handles it before `finish`
                finally:
                    progress = host.finish(session.fallback_folders())
                    self._show(sweep, host)
            return progress

        yield run

    def _show(self, sweep: SweepStatus, host: Host) -> None:
        for record in host.take():
            emit(Recorded(record=record))
            sweep.trials_recorded += not record.ends_launch
            sweep.ended |= record.ends_launch
        progress = host.progress()
        sweep.stopped = progress.stopped
        emit(Progressed(progress=progress, sweeps=self._sweeps))


def run(request: JobRequest, console: Console) -> Ended:
    sweep, place = request.sweep, place_of(request, console)
    on_the_head = replace(sweep, results=results_of(request), launched_at=monotonic())
    ran = run_sweep(plan_sweep(on_the_head, place), place, console)
    print_summary(console, ran, sweep.results, sweep.options)
    return Ended(exit_code=ran.exit_code)


def drive(run: Callable[[JobRequest, Console], Ended]) -> int:
    """Run the request in the current folder. Print the event Ended, and return the exit code."""
    request = read_request(Path.cwd())
    try:
        # Ray copies a job's folder to its workers. Without a job, the folder must be named.
        environment = {"working_dir": str(Path.cwd()), "env_vars": VARIABLES}
        ray.init(
            address="auto",
            log_to_driver=False,
            logging_level=logging.WARNING,
            runtime_env=environment if request.inside else None,
        )
        if request.inside and not request.allow_unauthenticated:
            refuse_open_ray(ray.get_runtime_context().gcs_address)
        ended = run(request, Console(width=PLAIN_WIDTH, markup=False))
    except MISTAKES as error:
        ended = Ended(exit_code=exit_code_of(error), reason=str(error))
    emit(ended)
    return ended.exit_code


def leave(code: int) -> NoReturn:
    sys.stdout.flush()
    os._exit(code)  # see orchestrator/cli/failing.py::leave


def results_of(request: JobRequest) -> str:
    """Return the results' location on the head. If it is a folder, add the sender's records."""
    results = request.sweep.results
    if Location(results).is_url:
        return results
    folder = Path.home() / HEAD_FOLDER / Path(results).expanduser()
    if Path(RECORDS).is_dir():
        shutil.copytree(RECORDS, folder, dirs_exist_ok=True)
    return str(folder)


def place_of(request: JobRequest, console: Console) -> TheseNodes:
    """Return usable nodes of the requested GPU model. Raises NeedsGpuError or SpecError."""
    show, strict = partial(say, console), request.sweep.options.strict
    suite = request.sweep.suite
    wait_for_nodes(request.workers, show)
    nodes, unfit = look_at_nodes(workload_names(suite), needs_cuda=suite.needs_cuda)
    for address, reason in unfit:
        show(f"node left out: {address}: {reason}")
    if unfit and strict:
        names = ", ".join(address for address, _ in unfit)
        raise SpecError(f"--strict: these nodes cannot take part: {names}")
    if not nodes:
        reasons = "; ".join(f"{address}: {reason}" for address, reason in unfit)
        kind = NeedsGpuError if all(NO_CUDA in reason for _, reason in unfit) else SpecError
        raise kind(f"no node can take part: {reasons}")
    models = [node.model for node in nodes]
    for name in models_missing(suite.gpus, models):
        show(f"gpus.models: no node has a GPU called {name}")
        if strict:
            raise SpecError(f"--strict: no node has a GPU called {name}")
    model = model_asked(suite.gpus, models)
    return TheseNodes([node for node in nodes if node.model == model], suite.gpus)


def emit(event: Event) -> None:
    print(to_line(event), flush=True)


def left_of(nodes: list[Node], alive: set[str]) -> list[Node]:
    return [node for node in nodes if node.node_id in alive] or nodes


if __name__ == "__main__":
    leave(drive(run))  # Ray reads from the exit code whether a job failed
