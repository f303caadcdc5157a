"""A job on a cluster: what it is asked, what it takes along (this very version of our package, and what the user named
of her own code), and what it says to whoever follows it, lines in its output among plain ones.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from cudnn_sweep.analysis.answering.contrast import Contrast
from cudnn_sweep.analysis.storing.location import Location
from cudnn_sweep.analysis.storing.schema import RunRecord
from cudnn_sweep.analysis.storing.store import open_store
from cudnn_sweep.cluster.reach.launcher import end_group
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.options import NightOptions
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.planning.request import SweepRequest
from cudnn_sweep.orchestrator.planning.spec import NightlyKeys, NightName, is_of
from cudnn_sweep.orchestrator.planning.spelling import words_of
from cudnn_sweep.orchestrator.process.protocol import EXACT
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.workloads.cells.suite import workload_names
from cudnn_sweep.workloads.hardware.environment import our_commit, our_version
from cudnn_sweep.workloads.survey import Survey

FILE = "sweep-request.json"
RECORDS = (
    "records"  # a folder beside it: what the sender has of sweeps that go on, and of earlier nights
)
HEAD_FOLDER = ".cudnn-sweep"
MARK = "\x1esweep "  # nobody prints a record separator by chance; str.splitlines ends a line at it
PACKAGE = "cudnn_sweep"
FOLDERS = ("analysis", "cluster", "orchestrator", "workloads")
NOT_TAKEN = shutil.ignore_patterns("__pycache__", "*.pyc")
END_S = 10.0  # for a driver that is to end
MOST_BYTES = 50 * 2**20  # of the user's own code: more is data, and slow to send

# Each worker's. As on this machine: see cluster/local/local_ray.py; and Tune must not leave the job's folder.
VARIABLES = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


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


def stage(request: JobRequest, folder: Path) -> dict[str, Any]:
    """Fill `folder`, and return the job's runtime environment. Raises SpecError for what is not there."""
    package, work = folder / PACKAGE, folder / "work"
    for name in FOLDERS:
        source = Path(import_module(f"{PACKAGE}.{name}").__path__[0])
        shutil.copytree(source, package / name, ignore=NOT_TAKEN)
    work.mkdir()
    write_request(request, work)
    take_own_code(request.sweep, work)
    _take_records(request, work / RECORDS)
    commit = our_commit()
    return {
        "py_modules": [str(package)],
        "working_dir": str(work),
        "env_vars": {
            **VARIABLES,
            "SWEEP_VERSION": our_version(),
            **({"SWEEP_COMMIT": commit} if commit else {}),
        },
    }


def take_own_code(request: SweepRequest, work: Path) -> None:
    """The files and modules of the user's own that the suite names. Raises SpecError."""
    for reference in _own(request):
        _take(reference, work)
    _check_size(work)


def _own(request: SweepRequest) -> list[str]:
    named = workload_names(request.suite)
    for axes in request.suite.cells:
        named.append(axes.model.loss)
        if isinstance(axes.model.inputs, str):
            named.append(axes.model.inputs)
    places = [name.rpartition(":")[0] for name in named if ":" in name]
    return list(dict.fromkeys([*places, *request.preload]))


def _take(place: str, work: Path) -> None:
    """A file by its path, or a module that lies in this folder; installed ones the nodes have."""
    if place.endswith(".py"):
        _take_file(place, work)
        return
    top = place.partition(".")[0]
    if Path(f"{top}.py").is_file():
        shutil.copy(f"{top}.py", work)
    elif Path(top).is_dir():
        shutil.copytree(top, work / top, ignore=NOT_TAKEN, dirs_exist_ok=True)


def _take_file(place: str, work: Path) -> None:
    source = Path(place)
    if source.is_absolute() or ".." in source.parts:
        raise SpecError(f"{place}: on a cluster a file must lie in this folder or below it")
    if not source.is_file():
        raise SpecError(f"{place}: there is no such file")
    (work / source).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, work / source)


def _take_records(request: JobRequest, target: Path) -> None:
    """Copies of unfinished sweeps, and of what a night is compared with: the head that had them may be lost."""
    where, night = Location(request.sweep.results), request.night
    if where.is_url or not where.folder.is_dir():
        return
    store = open_store(where.text)
    taken = {state.sweep_id for state in store.sweeps() if not state.finished}
    if night is not None:
        taken.update(night.compared_with(store.sweep_ids()))
        for file in (where.folder / night.kept).glob("*.json"):
            (target / night.kept).mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target / night.kept)
    for sweep_id in taken:
        folder = f"sweep={sweep_id}"
        shutil.copytree(where.folder / folder, target / folder)


def _check_size(work: Path) -> None:
    size = sum(file.stat().st_size for file in work.rglob("*") if file.is_file())
    if size > MOST_BYTES:
        raise SpecError(
            f"the code that the suite names takes {size / 2**20:.0f} MiB, at most "
            f"{MOST_BYTES // 2**20} go to a cluster: keep data elsewhere"
        )


@contextmanager
def driver_here(module: str, work: Path) -> Iterator[subprocess.Popen[str]]:
    """As a process of this node, in a process group of its own, which ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        cwd=work,
        env={**os.environ, **VARIABLES},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
        process.wait()
    finally:
        end_group(process, END_S)
