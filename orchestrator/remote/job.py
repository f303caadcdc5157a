"""A job on a cluster: its request, its files, and its events, which are marked lines in its output."""

import shlex
import shutil
from dataclasses import dataclass, replace
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from cudnn_sweep.analysis.results.contrast import Contrast
from cudnn_sweep.analysis.store.location import Location
from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.analysis.store.store import open_store
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

FILE = "sweep-request.json"
# A folder beside FILE, with the sender's records of unfinished sweeps and of earlier nights.
RECORDS = "records"
HEAD_FOLDER = ".cudnn-sweep"
MARK = "\x1esweep "  # nobody prints a record separator by chance; str.splitlines ends a line at it
PACKAGE = "cudnn_sweep"
FOLDERS = ("analysis", "cluster", "orchestrator", "workloads")
NOT_TAKEN = shutil.ignore_patterns("__pycache__", "*.pyc")

# Environment of workers, as in cluster/local/local_ray.py; Tune must stay in the job's folder.
VARIABLES = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class NightJob:
    """What a night's request has in addition to a launch's request."""

    options: NightOptions
    keys: NightlyKeys
    name: NightName
    host: str
    """Name of the host on which the night was started."""
    since: date
    """Earliest night to compare with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRequest:
    """The request of a launch, or of a night if `night` is set."""

    sweep: SweepRequest
    workers: int = 0
    """Number of nodes for which the driver waits. The head is not counted."""
    inside: bool = False
    """Whether the command runs on the cluster. If so, the driver is its child and not a job."""
    allow_unauthenticated: bool = False
    night: NightJob | None = None

    @property
    def driver(self) -> str:
        return f"cudnn_sweep.orchestrator.{'nightly' if self.night else 'remote'}.driver"

    @property
    def command(self) -> str:
        """The command that resumes this launch or night."""
        if self.night is None:
            return self.sweep.options.command()
        options = replace(self.night.options, night=self.night.name.date)
        return shlex.join([options.program, "nightly", *words_of(options)])


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


@dataclass(kw_only=True, slots=True)
class SweepStatus:
    """Progress of one launch of a sweep."""

    sweep_id: str
    trials_planned: int = 0
    trials_recorded: int = 0
    ended: bool = False
    """Whether a record marks the end of the launch."""
    stopped: str | None = None

    def __str__(self) -> str:
        line = f"sweep {self.sweep_id}: {self.trials_recorded} of {self.trials_planned} trials recorded"
        return line if self.stopped is None else f"{line}\nno new trial starts: {self.stopped}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Progressed:
    """Progress of a job. The latest event replaces the earlier ones."""

    progress: Progress
    """Progress of the current run. First the plan runs, then the repeats of split blocks run."""
    sweeps: dict[str, SweepStatus]
    """Status by launch_id. In a night, the sweep and the fresh trials are two launches."""
    kind: Literal["progressed"] = "progressed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    record: RunRecord
    kind: Literal["recorded"] = "recorded"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    exit_code: int
    reason: str | None = None
    """Message of the error with which the driver ended. None if there was no error."""
    outcome: str = ""
    """Outcome of a night, as in `night.json` of its reports."""
    kind: Literal["ended"] = "ended"


Event = Annotated[Started | Progressed | Recorded | Ended, Field(discriminator="kind")]
EVENT: TypeAdapter[Event] = TypeAdapter(Event, config=EXACT)


def to_line(event: Event) -> str:
    # A record may hold a tuple for a list: JSON is the same, so followers get no warning.
    return MARK + EVENT.dump_json(event, warnings=False).decode()


def from_line(line: str) -> Event | None:
    """Return the event in a line. Return None for plain output and for an incomplete event."""
    if not line.startswith(MARK):
        return None
    try:
        return EVENT.validate_json(line.removeprefix(MARK))
    except ValidationError:
        return None


def stage(request: JobRequest, folder: Path) -> dict[str, Any]:
    """Fill `folder` with the job's files; return the job's runtime environment. Raises SpecError."""
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
    """Copy the user's files and modules that the suite or `preload` names. Raises SpecError."""
    names = workload_names(request.suite)
    for axes in request.suite.cells:
        names += [name for name in (axes.model.loss, axes.model.inputs) if isinstance(name, str)]
    places = [name.rpartition(":")[0] for name in names if ":" in name]
    for place in dict.fromkeys([*places, *request.preload]):
        top = place.partition(".")[0]
        if place.endswith(".py"):
            _take_file(place, work)
        elif Path(f"{top}.py").is_file():
            shutil.copy(f"{top}.py", work)
        elif Path(top).is_dir():  # else the module is installed, and the nodes have it
            shutil.copytree(top, work / top, ignore=NOT_TAKEN, dirs_exist_ok=True)


def _take_file(place: str, work: Path) -> None:
    source = Path(place)
    if source.is_absolute() or ".." in source.parts:
        raise SpecError(f"{place}: on a cluster, a file must lie in the current folder or below it")
    if not source.is_file():
        raise SpecError(f"{place}: there is no such file")
    (work / source).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, work / source)


def _take_records(request: JobRequest, target: Path) -> None:
    """Copy the records of unfinished sweeps and of earlier nights. The head may have lost them."""
    location, night = Location(request.sweep.results), request.night
    if location.is_url or not location.folder.is_dir():
        return
    store = open_store(location.text)
    taken = {state.sweep_id for state in store.sweeps() if not state.finished}
    if night is not None:
        nights = [name for name in store.sweep_ids() if is_of(name, night.name.launch)]
        taken.update(name for name in nights if name.partition("-")[2] >= str(night.since))
        kept = f"nightly/{night.name.launch}"  # see Diary in nightly/request.py
        for file in (location.folder / kept).glob("*.json"):
            (target / kept).mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target / kept)
    for folder in (f"sweep={sweep_id}" for sweep_id in taken):
        shutil.copytree(location.folder / folder, target / folder)
