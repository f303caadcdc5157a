"""A job on a cluster: what it is asked, a file in its folder; and what it says to whoever follows it, lines in its output
among plain ones.
"""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from cudnn_sweep.analysis.answering.contrast import Contrast
from cudnn_sweep.analysis.storing.location import Location
from cudnn_sweep.analysis.storing.schema import RunRecord
from cudnn_sweep.cluster.keys import NightlyKeys
from cudnn_sweep.orchestrator.planning.options import NightOptions
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.planning.request import SweepRequest
from cudnn_sweep.orchestrator.planning.spec import NightName, is_of
from cudnn_sweep.orchestrator.planning.spelling import words_of
from cudnn_sweep.orchestrator.process.protocol import EXACT
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.workloads.survey import Survey

FILE = "sweep-request.json"
RECORDS = (
    "records"  # a folder beside it: what the sender has of sweeps that go on, and of earlier nights
)
HEAD_FOLDER = ".cudnn-sweep"
MARK = "\x1esweep "  # nobody prints a record separator by chance; str.splitlines ends a line at it


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
class NightJob:
    """What a night is, beside its sweep."""

    options: NightOptions
    keys: NightlyKeys
    name: NightName
    host: str
    """The host that it was started on."""
    since: date
    """Nights before it are not compared with."""

    @property
    def kept(self) -> str:
        """The folder of what nights keep, in the results: see nightly/diary.py."""
        return f"nightly/{self.name.launch}"

    def compared_with(self, sweep_ids: Iterable[str]) -> set[str]:
        """Those of them that are nights of this launch file, or fresh trials of one."""
        ours = (each for each in sweep_ids if is_of(each, self.name.launch))
        return {each for each in ours if each.partition("-")[2] >= str(self.since)}


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRequest:
    """A launch, or a night."""

    sweep: SweepRequest
    workers: int = 0
    """Nodes that come up besides the head: to be waited for."""
    inside: bool = False
    """Launched on a node of the cluster, and no job of its own there."""
    allow_unauthenticated: bool = False
    night: NightJob | None = None

    @property
    def driver(self) -> str:
        """The module that runs it there."""
        return f"cudnn_sweep.orchestrator.{'nightly' if self.night else 'remote'}.driver"

    @property
    def command(self) -> str:
        """What to type to go on with it."""
        if self.night is None:
            return self.sweep.options.command()
        options = replace(self.night.options, night=self.night.name.date)
        return shlex.join([options.program, "nightly", *words_of(options)])

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    sweep_id: str
    reason: str
    plan: Plan
    contrasts: tuple[Contrast, ...]
    kind: Literal["started"] = "started"


@dataclass(frozen=True, kw_only=True, slots=True)
class Progressed:
    """How far a sweep is. The last of them stands for all that was said before."""

    sweep_id: str
    launch_id: str
    progress: Progress
    """How far the trials are that run now: the plan's, or blocks that run again."""
    planned: int
    """How many trials of the sweep this launch has planned in all."""
    recorded: int
    """How many trials of the sweep this launch has recorded."""
    sweeps: int
    """How many sweeps, of a GPU model each, the job has."""
    kind: Literal["progressed"] = "progressed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """A trial that is durable there."""

    record: RunRecord
    kind: Literal["recorded"] = "recorded"


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """What became of a night."""

    outcome: str
    """As `night.json` of its reports."""
    kind: Literal["compared"] = "compared"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    exit_code: int
    reason: str | None = None
    """Why nothing was started."""
    sweeps: int = 1
    """How many of these the job says."""
    kind: Literal["ended"] = "ended"


Event = Annotated[Started | Progressed | Recorded | Compared | Ended, Field(discriminator="kind")]
EVENT: TypeAdapter[Event] = TypeAdapter(Event, config=EXACT)


def to_line(event: Event) -> str:
    # Records hold tuples where their columns are lists: one thing in JSON, and no warning to followers.
    return MARK + EVENT.dump_json(event, warnings=False).decode()


def from_line(line: str) -> Event | None:
    """None where the line is no event: somebody's print."""
    if not line.startswith(MARK):
        return None
    try:
        return EVENT.validate_json(line.removeprefix(MARK))
    except ValidationError:  # cut off
        return None
