"""What a launch asks of the cluster that it is sent to: one value, a file in the job's folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from cudnn_sweep.analysis.location import Location
from cudnn_sweep.orchestrator.options import LaunchOptions
from cudnn_sweep.orchestrator.remote.node import Node
from cudnn_sweep.orchestrator.session import Session
from cudnn_sweep.workloads.suite import SuiteSpec

FILE = "sweep-request.json"
RECORDS = "records"  # a folder beside it: what the sender has of unfinished sweeps
HEAD_FOLDER = ".cudnn-sweep"


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """Say what the nodes are, and run nothing."""

    last_good: str | None = None
    """A Python on each node, whose software is asked for too."""
    kind: Literal["look"] = "look"


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Run a session that was planned where it is sent from."""

    session: Session
    budget_s: float | None
    nodes: tuple[Node, ...]
    """Those that were looked at."""
    kind: Literal["run"] = "run"


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteRequest:
    options: LaunchOptions
    """As they were typed."""
    suite_name: str
    suite: SuiteSpec
    results: str
    """A folder, on the head below its user's home where it is relative, or a URL."""
    preload: tuple[str, ...] = ()
    budget_minutes: float | None = None
    workers: int = 0
    """Nodes that come up besides the head: to be waited for."""
    inside: bool = False
    """Launched on a node of the cluster, and no job of its own there."""
    allow_unauthenticated: bool = False
    errand: Look | Run | None = None
    """In place of a whole launch."""

    @property
    def session(self) -> Session | None:
        """That was planned here."""
        return self.errand.session if isinstance(self.errand, Run) else None

    def location(self) -> str:
        """The results as the head names them."""
        if Location(self.results).is_url:
            return self.results
        return str(Path.home() / HEAD_FOLDER / Path(self.results).expanduser())


REQUEST = TypeAdapter(RemoteRequest)


def write_request(request: RemoteRequest, folder: Path) -> None:
    (folder / FILE).write_bytes(REQUEST.dump_json(request, indent=2))


def read_request(folder: Path) -> RemoteRequest:
    return REQUEST.validate_json((folder / FILE).read_bytes())
