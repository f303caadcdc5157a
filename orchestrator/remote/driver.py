"""A launch on a cluster, as a Ray job on its head: looks at the nodes, plans for each GPU model, runs.

Started by `sweep launch` in a folder with the request and the user's own files; what it prints are
events for whoever follows, and lines for people. It needs nobody to follow it. Where the launch itself is on
a node of the cluster, this is a process of it.
"""

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import NoReturn

import ray
from pydantic import TypeAdapter
from rich.console import Console

from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.analysis.storing.location import Location
from cudnn_sweep.analysis.storing.store import Store
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.reach.jobs import refuse_open_ray
from cudnn_sweep.orchestrator.doctor.checks import Check, check_storage
from cudnn_sweep.orchestrator.errors import OrchestratorError, SpecError
from cudnn_sweep.orchestrator.gpus.choice import models_asked, models_missing, share_of
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.orchestrator.remote.job import (
    RECORDS,
    VARIABLES,
    Ended,
    Event,
    JobRequest,
    Node,
    Progressed,
    Recorded,
    Started,
    read_request,
    to_line,
)
from cudnn_sweep.orchestrator.remote.nodes import (
    look_at_last_good,
    look_at_nodes,
    wait_for_nodes,
)
from cudnn_sweep.orchestrator.running.run_sweep import (
    RunSession,
    plan_sweep,
    run_sweep,
)
from cudnn_sweep.orchestrator.showing.display import now_and_then
from cudnn_sweep.orchestrator.showing.say import PLAIN_WIDTH, say
from cudnn_sweep.orchestrator.showing.summary import print_summary
from cudnn_sweep.orchestrator.slots.tune_host import Host, Slots, alive_nodes
from cudnn_sweep.workloads.cells.suite import GpuChoice, SuiteSpec, workload_names
from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.survey import Survey

USAGE = 2  # exit code
NODES = TypeAdapter(list[Node])

EVERY_S = 1.0


class TheseNodes:
    """The nodes of a cluster as a place. It prints events for whoever follows the job."""

    def __init__(self, nodes: list[Node], choice: GpuChoice, sweeps: int) -> None:
        """`sweeps`: how many the job runs, this one among them."""
        self._nodes = nodes
        self._choice = choice
        self._sweeps = sweeps
        self._planned: Counter[str] = Counter()
        self._recorded: Counter[str] = Counter()
        """Trials by launch_id: a night has further ones for what it measures again."""

    def look(self, suite: SuiteSpec) -> Survey:
        """The survey of one node: they are alike."""
        return self._nodes[0].machine

    def announce(self, session: Session, reason: str, console: Console) -> None:
        self._planned[session.launch_id] += len(session.plan.trials)
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
            if session.launch_id not in self._planned:  # fresh trials of a night
                self.announce(session, "", console)
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
                    with now_and_then(lambda: self._tell(session, host), every_s=EVERY_S):
                        host.run(Path(tune_folder), budget_s)
                finally:
                    progress = host.finish(session.fallback_folders())
                    self._tell(session, host)
            return progress

        yield run

    def _tell(self, session: Session, host: Host) -> None:
        for record in host.take():
            emit(Recorded(record=record))
            self._recorded[session.launch_id] += 1
        emit(
            Progressed(
                sweep_id=session.sweep_id,
                launch_id=session.launch_id,
                progress=host.progress(),
                planned=self._planned[session.launch_id],
                recorded=self._recorded[session.launch_id],
                sweeps=self._sweeps,
            )
        )


def main(of_one_model: Path | None, sweeps: int) -> int:
    """The exit code of `sweep launch`: 0 every trial is recorded, 1 not so, 2 nothing was started.

    `of_one_model`: a file of nodes, for a process that runs the sweep of their model alone, one of so
    many `sweeps`.
    """

    def run(request: JobRequest, console: Console) -> int:
        by_model = (
            [NODES.validate_json(of_one_model.read_bytes())]
            if of_one_model
            else nodes_by_model(request, console)
        )
        if len(by_model) > 1:
            leave(a_process_each(__spec__.name, by_model))  # each of them tells its end
        return _sweep(request, by_model[0], sweeps, console)

    return drive(run, sweeps)


def drive(run: Callable[[JobRequest, Console], int], sweeps: int = 1) -> int:
    """Run what this folder's request asks for, on the cluster that this machine is a node of, and tell its end."""
    request = read_request(Path.cwd())
    console = Console(width=PLAIN_WIDTH, markup=False)
    code, reason = USAGE, None
    try:
        _join(request)
        code = run(request, console)
    except (AnalysisError, ClusterError, OrchestratorError, WorkloadError) as error:
        reason = str(error)
    emit(Ended(exit_code=code, reason=reason, sweeps=sweeps))
    return code


def leave(code: int) -> NoReturn:
    sys.stdout.flush()
    os._exit(code)  # see orchestrator/cli/failing.py::leave


def _join(request: JobRequest) -> None:
    """Join the cluster. Ray gives a job's workers its folder; without a job this process does."""
    environment = (
        {"working_dir": str(Path.cwd()), "env_vars": VARIABLES} if request.inside else None
    )
    ray.init(
        address="auto",
        log_to_driver=False,
        logging_level=logging.WARNING,
        runtime_env=environment,
    )
    if request.inside and not request.allow_unauthenticated:
        refuse_open_ray(ray.get_runtime_context().gcs_address)


def results_of(request: JobRequest) -> str:
    """Location of the results on the head, into which the sender's records are copied."""
    location = request.location()
    if not Location(location).is_url and Path(RECORDS).is_dir():
        shutil.copytree(RECORDS, location, dirs_exist_ok=True)
    return location


def _sweep(request: JobRequest, nodes: list[Node], sweeps: int, console: Console) -> int:
    asked = request.sweep
    place = TheseNodes(nodes, asked.suite.gpus, sweeps)
    asked_here = replace(asked, results=results_of(request), launched_at=monotonic())
    ran = run_sweep(plan_sweep(asked_here, place), place, console)
    print_summary(console, ran, asked.results, asked.options)
    return ran.exit_code


def nodes_by_model(request: JobRequest, console: Console) -> list[list[Node]]:
    """The nodes that can take part, by GPU model. Raises SpecError if there is none."""
    tell = partial(say, console)
    wait_for_nodes(request.workers, tell)
    nodes, unfit = look_at_nodes(
        workload_names(request.sweep.suite), needs_cuda=request.sweep.suite.needs_cuda
    )
    for each in unfit:
        tell(f"left out: {each.address}: {each.reason}")
    if unfit and request.sweep.options.strict:
        names = ", ".join(each.address for each in unfit)
        raise SpecError(f"--strict: {names} cannot take part")
    if not nodes:
        reasons = "; ".join(f"{each.address}: {each.reason}" for each in unfit)
        raise SpecError(f"no node can take part: {reasons}")
    models = models_of(request, [node.model for node in nodes], tell)
    return [[node for node in nodes if node.model == model] for model in models]


def models_of(request: JobRequest, there: list[str], tell: Callable[[str], None]) -> list[str]:
    """The GPU models of `there` that the suite selects. Raises SpecError for none, or for several with --sweep-id."""
    models = models_asked(request.sweep.suite.gpus, there)
    for name in models_missing(request.sweep.suite.gpus, there):
        tell(f"gpus.models: no node has a GPU called {name}")
        if request.sweep.options.strict:
            raise SpecError(f"--strict: no node has a GPU called {name}")
    if request.sweep.options.sweep_id is not None and len(models) > 1:
        raise SpecError(
            f"--sweep-id names one sweep, and each GPU model has its own: {', '.join(models)}; ask for "
            "one of them by gpus.models"
        )
    return models


def a_process_each(driver: str, by_model: list[list[Node]]) -> int:
    """Plans, and sweeps, of several GPU models side by side: one Tune cannot keep them apart.

    `driver`: the module that runs one, given a file of its nodes and how many there are. Returns the worst exit code.
    """
    started = []
    for number, nodes in enumerate(by_model):
        file = Path(f"nodes-{number}.json")
        file.write_bytes(NODES.dump_json(nodes))
        command = [sys.executable, "-m", driver, str(file), str(len(by_model))]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    with ThreadPoolExecutor(len(started)) as pool:
        return max(pool.map(partial(_pass_on, Lock()), started))


def _pass_on(turn: Lock, process: subprocess.Popen[str]) -> int:
    """Line by line: two that write at once would tear each other's events. Returns its exit code, as a
    shell has it of one that a signal ended.
    """
    with process:
        for line in process.stdout or ():
            with turn:
                print(line, end="", flush=True)
    code = process.returncode
    return code if code >= 0 else 128 - code


def emit(event: Event) -> None:
    print(to_line(event), flush=True)


def left_of(nodes: list[Node], alive: set[str]) -> list[Node]:
    """The nodes that are alive: a slot of a lost node would keep the others waiting until it is up."""
    return [node for node in nodes if node.node_id in alive] or nodes


if __name__ == "__main__":
    leave(main(Path(sys.argv[1]), int(sys.argv[2])) if sys.argv[1:] else main(None, 1))
