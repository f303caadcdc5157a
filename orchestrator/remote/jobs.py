"""What is asked of a cluster besides a whole launch, a job each: what its nodes are, and to run a session that was
planned elsewhere.
"""

from dataclasses import replace

from rich.console import Console

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.locks.private_folder import scratch_folder
from cudnn_sweep.orchestrator.locks.sweep_lock import sweep_lock
from cudnn_sweep.orchestrator.remote.by_model import nodes_by_model
from cudnn_sweep.orchestrator.remote.events import NodesFound
from cudnn_sweep.orchestrator.remote.nodes import look_at_last_good, still_there
from cudnn_sweep.orchestrator.remote.progress_events import emit
from cudnn_sweep.orchestrator.remote.request import JobRequest, SessionJob, SurveyJob
from cudnn_sweep.orchestrator.remote.these_nodes import TheseNodes
from cudnn_sweep.orchestrator.running.run_sweep import open_results


def do_job(request: JobRequest, job: SurveyJob | SessionJob, console: Console) -> None:
    """Raises an error of the folders where nothing can start."""
    if isinstance(job, SurveyJob):
        _survey(request, job, console)
    else:
        _run(request, job, console)


def _survey(request: JobRequest, job: SurveyJob, console: Console) -> None:
    nodes = [node for alike in nodes_by_model(request, console) for node in alike]
    found = NodesFound(nodes=tuple(nodes))
    if job.last_good is not None:
        try:
            found = replace(found, last_good=look_at_last_good(nodes, job.last_good))
        except SpecError as error:  # the night itself does without
            found = replace(found, last_good_fails=str(error))
    emit(found)


def _run(request: JobRequest, job: SessionJob, console: Console) -> None:
    suite = request.sweep.suite
    nodes = still_there(job.nodes)
    place = TheseNodes(nodes, suite.gpus, sweeps=1)
    store = open_results(request.location(), console)
    session = replace(
        job.session,
        scratch=scratch_folder(job.session.sweep_id),
        preload=place.modules(suite, request.sweep.preload),
    )
    with sweep_lock(store.location, session.sweep_id):
        place.announce(session, "", console)
        with place.opened(store, nodes[0].machine, console) as run:
            run(session, job.budget_s)
