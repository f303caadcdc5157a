"""What a job on a cluster is asked: one value, a file in the job's folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from cudnn_sweep.analysis.storing.location import Location
from cudnn_sweep.orchestrator.planning.request import SweepRequest
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.workloads.survey import Survey

FILE = "sweep-request.json"
RECORDS = "records"  # a folder beside it: what the sender has of unfinished sweeps
HEAD_FOLDER = ".cudnn-sweep"


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeReport:
    machine: Survey
    free_bytes: int
    """Free space on the disk of its temporary files, where compute caches lie."""
    clock_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    node_id: str
    address: str
    accelerators: int
    machine: Survey

    @property
    def model(self) -> str:
        return self.machine.environment.gpu


@dataclass(frozen=True, kw_only=True, slots=True)
class Unfit:
    address: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SurveyJob:
    """Say what the nodes are, and run nothing."""

    last_good: str | None = None
    """A Python on each node, whose software is asked for too."""
    kind: Literal["survey"] = "survey"


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionJob:
    """Run a session that was planned where it is sent from."""

    session: Session
    budget_s: float | None
    nodes: tuple[Node, ...]
    """The nodes that a survey found before."""
    kind: Literal["session"] = "session"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRequest:
    sweep: SweepRequest
    workers: int = 0
    """Nodes that come up besides the head: to be waited for."""
    inside: bool = False
    """Launched on a node of the cluster, and no job of its own there."""
    allow_unauthenticated: bool = False
    job: SurveyJob | SessionJob | None = None
    """None: a whole launch."""

    @property
    def session(self) -> Session | None:
        """The one that was planned here."""
        return self.job.session if isinstance(self.job, SessionJob) else None

    def location(self) -> str:
        """The results as the head names them: a folder below its user's home where it is relative, or a URL."""
        results = self.sweep.results
        if Location(results).is_url:
            return results
        return str(Path.home() / HEAD_FOLDER / Path(results).expanduser())


REQUEST = TypeAdapter(JobRequest)


def write_request(request: JobRequest, folder: Path) -> None:
    (folder / FILE).write_bytes(REQUEST.dump_json(request, indent=2))


def read_request(folder: Path) -> JobRequest:
    return REQUEST.validate_json((folder / FILE).read_bytes())
