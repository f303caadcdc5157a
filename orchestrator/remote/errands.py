"""What a night asks of a cluster, a job each: what its nodes are, and to run what was planned elsewhere."""

from dataclasses import replace
from pathlib import Path

from rich.console import Console

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.every_launch import modules_to_preload, open_results
from cudnn_sweep.orchestrator.private_folder import scratch_folder
from cudnn_sweep.orchestrator.remote.by_model import nodes_by_model
from cudnn_sweep.orchestrator.remote.events import Looked
from cudnn_sweep.orchestrator.remote.nodes import look_at_last_good, still_there
from cudnn_sweep.orchestrator.remote.on_nodes import run_on_nodes
from cudnn_sweep.orchestrator.remote.request import Look, RemoteRequest, Run
from cudnn_sweep.orchestrator.remote.teller import Teller, emit
from cudnn_sweep.orchestrator.sweep_lock import sweep_lock


def do_errand(request: RemoteRequest, errand: Look | Run, console: Console) -> None:
    """Raises an error of the folders where nothing can start."""
    if isinstance(errand, Look):
        _look(request, errand, console)
    else:
        _run(request, errand, console)


def _look(request: RemoteRequest, errand: Look, console: Console) -> None:
    (nodes,) = nodes_by_model(request, console)
    looked = Looked(nodes=tuple(nodes))
    if errand.last_good is not None:
        try:
            looked = replace(looked, last_good=look_at_last_good(nodes, errand.last_good))
        except SpecError as error:  # the night itself does without
            looked = replace(looked, last_good_fails=str(error))
    emit(looked)


def _run(request: RemoteRequest, errand: Run, console: Console) -> None:
    nodes = still_there(errand.nodes)
    store = open_results(request.location(), console)
    session = replace(
        errand.session,
        folder=Path(),
        scratch=scratch_folder(errand.session.sweep_id),
        preload=modules_to_preload(request.suite, request.preload),
    )
    with sweep_lock(store.location, session.sweep_id):
        teller = Teller(session, 1)
        teller.started(session.plan, "")
        run_on_nodes(store.location, nodes, request.suite.gpus, teller, session, errand.budget_s)
