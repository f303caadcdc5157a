"""A launch on a cluster, as a Ray job on its head: looks at the nodes, plans, runs.

Started by `sweep launch` in a folder with the request and the user's own files; what it prints are
events for whoever follows, and lines for people. It needs nobody to follow it. Where the launch itself is on
a node of the cluster, this is a process of it.
"""

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

from cudnn_sweep.analysis.storing.location import Location
from cudnn_sweep.analysis.storing.store import Store
from cudnn_sweep.cluster.reach.jobs import refuse_open_ray
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
from cudnn_sweep.orchestrator.showing.display import now_and_then
from cudnn_sweep.orchestrator.showing.say import PLAIN_WIDTH, say
from cudnn_sweep.orchestrator.showing.summary import print_summary
from cudnn_sweep.orchestrator.slots.tune_host import Host, Slots, alive_nodes
from cudnn_sweep.workloads.cells.measurement import TrialRequest
from cudnn_sweep.workloads.cells.suite import GpuChoice, SuiteSpec, workload_names
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.survey import Survey

EVERY_S = 1.0


class TheseNodes:
    """The nodes of a cluster as a place. It prints events for whoever follows the job."""

    def __init__(self, nodes: list[Node], choice: GpuChoice) -> None:
        self._nodes = nodes
        self._choice = choice
        self._sweeps: dict[str, SweepStatus] = {}
        """By launch_id: a night has a second one, of what it measures again."""

    def look(self, suite: SuiteSpec, *, needs_cuda: bool = False) -> Survey:
        """The survey of one node: they are alike."""
        return self._nodes[0].machine

    def call(self, trials: Sequence[TrialRequest], machine: Survey, console: Console) -> None:
        """A model that fails on the nodes is found by its first trials."""

    def announce(self, session: Session, reason: str, console: Console) -> None:
        sweep = SweepStatus(sweep_id=session.sweep_id)
        sweep = self._sweeps.setdefault(session.launch_id, sweep)
        sweep.trials_planned += len(session.plan.trials)
        emit(
            Started(
                sweep_id=session.sweep_id,
                reason=reason,
                plan=session.plan,
                contrasts=session.contrasts,
            )
        )

    def last_good(self, python: Path) -> Environment:
        return look_at_last_good(self._nodes, python)

    def checks(self, results: str) -> Iterator[Check]:
        """The nodes were checked when they were looked at."""
        yield from check_storage(results)

    @contextmanager
    def opened(self, store: Store, machine: Survey, console: Console) -> Iterator[RunSession]:
        def run(session: Session, budget_s: float | None, /) -> Progress:
            if session.launch_id not in self._sweeps:  # fresh trials of a night
                self.announce(session, "", console)
            sweep = self._sweeps[session.launch_id]
            there = left_of(self._nodes, alive_nodes())
            slots = Slots(
                count=share_of(self._choice, sum(node.accelerators for node in there)),
                gpu=True,
                nodes={node.node_id: node.address for node in there},
            )
            # each node has a copy of the user's files, where its workers are started
            session = replace(session, folder=Path())
            host = Host(session, results=store.location, slots=slots, followed=True)
            with tempfile.TemporaryDirectory(prefix="sweep-tune-") as tune_folder:
                try:
                    with now_and_then(lambda: self._tell(sweep, host), every_s=EVERY_S):
                        host.run(Path(tune_folder), budget_s)
                    host.recorder.launch_ended.remote()  # taken before `finish`
                finally:
                    progress = host.finish(session.fallback_folders())
                    self._tell(sweep, host)
            return progress

        yield run

    def _tell(self, sweep: SweepStatus, host: Host) -> None:
        for record in host.take():
            emit(Recorded(record=record))
            sweep.trials_recorded += not record.ends_launch
            sweep.ended |= record.ends_launch
        progress = host.progress()
        sweep.stopped = progress.stopped
        emit(Progressed(progress=progress, sweeps=self._sweeps))


def run(request: JobRequest, console: Console) -> Ended:
    """Run a launch."""
    asked, place = request.sweep, place_of(request, console)
    asked_here = replace(asked, results=results_of(request), launched_at=monotonic())
    ran = run_sweep(plan_sweep(asked_here, place), place, console)
    print_summary(console, ran, asked.results, asked.options)
    return Ended(exit_code=ran.exit_code)


def drive(run: Callable[[JobRequest, Console], Ended]) -> int:
    """Run what this folder's request asks for, on the cluster that this machine is a node of, and tell its end.
    Returns its exit code.
    """
    request = read_request(Path.cwd())
    try:
        _join(request)
        ended = run(request, Console(width=PLAIN_WIDTH, markup=False))
    except MISTAKES as error:
        ended = Ended(exit_code=exit_code_of(error), reason=str(error))
    emit(ended)
    return ended.exit_code


def leave(code: int) -> NoReturn:
    sys.stdout.flush()
    os._exit(code)  # see orchestrator/cli/failing.py::leave


def _join(request: JobRequest) -> None:
    """Join the cluster. Ray gives a job's workers its folder; without a job this process does."""
    environment = (
        {"working_dir": str(Path.cwd()), "env_vars": VARIABLES} if request.inside else None
    )
    ray.init(
        address="auto", log_to_driver=False, logging_level=logging.WARNING, runtime_env=environment
    )
    if request.inside and not request.allow_unauthenticated:
        refuse_open_ray(ray.get_runtime_context().gcs_address)


def results_of(request: JobRequest) -> str:
    """Location of the results on the head, into which the sender's records are copied: a folder below its user's home
    where it is relative, or a URL.
    """
    results = request.sweep.results
    if Location(results).is_url:
        return results
    folder = Path.home() / HEAD_FOLDER / Path(results).expanduser()
    if Path(RECORDS).is_dir():
        shutil.copytree(RECORDS, folder, dirs_exist_ok=True)
    return str(folder)


def place_of(request: JobRequest, console: Console) -> TheseNodes:
    """The nodes that can take part. Raises SpecError if there is none, or their GPUs are of several models."""
    tell, strict = partial(say, console), request.sweep.options.strict
    choice = request.sweep.suite.gpus
    wait_for_nodes(request.workers, tell)
    nodes, unfit = look_at_nodes(
        workload_names(request.sweep.suite), needs_cuda=request.sweep.suite.needs_cuda
    )
    for address, reason in unfit:
        tell(f"left out: {address}: {reason}")
    if unfit and strict:
        names = ", ".join(address for address, _ in unfit)
        raise SpecError(f"--strict: {names} cannot take part")
    if not nodes:
        reasons = "; ".join(f"{address}: {reason}" for address, reason in unfit)
        kind = NeedsGpuError if all(NO_CUDA in reason for _, reason in unfit) else SpecError
        raise kind(f"no node can take part: {reasons}")
    there = [node.model for node in nodes]
    for name in models_missing(choice, there):
        tell(f"gpus.models: no node has a GPU called {name}")
        if strict:
            raise SpecError(f"--strict: no node has a GPU called {name}")
    model = model_asked(choice, there)
    return TheseNodes([node for node in nodes if node.model == model], choice)


def emit(event: Event) -> None:
    print(to_line(event), flush=True)


def left_of(nodes: list[Node], alive: set[str]) -> list[Node]:
    """The nodes that are alive: a slot of a lost node would keep the others waiting until it is up."""
    return [node for node in nodes if node.node_id in alive] or nodes


if __name__ == "__main__":
    drive(run)
