"""What a machine is, asked of a process that is thrown away: planning imports no workload and touches no GPU."""

from cudnn_sweep.orchestrator.errors import ServerError
from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.process.protocol import Request, SurveyJob
from cudnn_sweep.workloads.survey import Survey

SURVEY_TIMEOUT_S = 120.0  # a first CUDA context on a machine with many GPUs takes tens of seconds


def survey(server: ForkServer, workloads: list[str]) -> Survey:
    """Raises ServerError where no answer came, with the reason."""
    outcome = server.run(Request(job=SurveyJob(workloads=workloads), timeout_s=SURVEY_TIMEOUT_S))
    if outcome.reply is None or outcome.reply.survey is None:
        own = own_code(workloads)
        about = f"importing {own}: " if own else ""
        raise ServerError(f"{about}{outcome.message or outcome.status}")
    return outcome.reply.survey


def own_code(workloads: list[str]) -> str:
    """Those that are imported from a user's file or package, in words."""
    return ", ".join(name for name in workloads if ":" in name)
