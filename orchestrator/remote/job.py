"""The request, files and events of a job on a cluster. An event is a line in the job's output."""

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
RECORDS = "records"
HEAD_FOLDER = ".cudnn-sweep"
MARK = "\x1esweep "  # str.splitlines ends a line at the record separator
PACKAGE = "cudnn_sweep"
FOLDERS = ("analysis", "cluster", "orchestrator", "workloads")
NOT_TAKEN = shutil.ignore_patterns("__pycache__", "*.pyc")

# Environment variables of workers. See also cluster/local/local_ray.py.
VARIABLES = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class NightJob:
    """Fields of a night's request that a launch's request does not have."""

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
    """Number of nodes that the driver waits for, without the head."""
    inside: bool = False
    """Whether the command runs on a node of the cluster."""
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
        count = f"{self.trials_recorded} of {self.trials_planned}"
        line = f"sweep {self.sweep_id}: {count} trials recorded"
        return line if self.stopped is None else f"{line}\nno new trial starts: {self.stopped}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Progressed:
    """Event with the progress of a job. The latest one replaces earlier ones."""

    progress: Progress
    sweeps: dict[str, SweepStatus]
    """Status of each launch, by launch_id."""
    kind: Literal["progressed"] = "progressed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    record: RunRecord
    kind: Literal["recorded"] = "recorded"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    exit_code: int
    reason: str | None = None
    """Error message of the driver, or None if it did not fail."""
    outcome: str = ""
    """Outcome of a night, with the content of its `night.json`."""
    kind: Literal["ended"] = "ended"


Event = Annotated[Started | Progressed | Recorded | Ended, Field(discriminator="kind")]
EVENT: TypeAdapter[Event] = TypeAdapter(Event, config=EXACT)


def to_line(event: Event) -> str:
    # A record may have a tuple instead of a list, which does not change the JSON.
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
    """Copy the job's files into `folder`. Return Ray's runtime environment. Raises SpecError."""
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
    """Copy the user's files and modules that the request needs. Raises SpecError."""
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
        elif Path(top).is_dir():  # other modules must be installed on the nodes
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
    """Copy the records of unfinished sweeps and of earlier nights."""
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
