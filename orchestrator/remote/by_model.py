"""A cluster's nodes by GPU model: each model that is asked for has a plan, a sweep and a process of its own."""

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock

from pydantic import TypeAdapter
from rich.console import Console

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.gpus.choice import models_asked, models_missing
from cudnn_sweep.orchestrator.remote.node import Node
from cudnn_sweep.orchestrator.remote.nodes import look_at_nodes, wait_for_nodes
from cudnn_sweep.orchestrator.remote.request import JobRequest
from cudnn_sweep.orchestrator.showing.say import say
from cudnn_sweep.workloads.cells.suite import workload_names

NODES = TypeAdapter(list[Node])


def nodes_by_model(request: JobRequest, console: Console) -> list[list[Node]]:
    """Those that can take part and whose GPU model is asked for. Raises SpecError where none is."""

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
    """Those of `there` that are asked for. Raises SpecError where that is none, or one too many."""
    models = models_asked(request.sweep.suite.gpus, there)
    for name in models_missing(request.sweep.suite.gpus, there):
        tell(f"gpus.models: no node has a GPU called {name}")
        if request.sweep.options.strict:
            raise SpecError(f"--strict: no node has a GPU called {name}")
    if request.sweep.options.selection.sweep_id is not None and len(models) > 1:
        raise SpecError(
            f"--sweep-id names one sweep, and each GPU model has its own: {', '.join(models)}; ask for "
            "one of them by gpus.models"
        )
    return models


def read_nodes(file: Path) -> list[Node]:
    return NODES.validate_json(file.read_bytes())


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
