"""Reads `metadata.sweep` of a launch file, and chooses the suite of a command."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Literal

from pydantic import (
    BaseModel,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    field_validator,
    model_validator,
)

from cudnn_sweep.cluster.launch_file import LaunchFile
from cudnn_sweep.cluster.strict_yaml import (
    check_part,
    did_you_mean,
    dotted,
    read_document,
    read_strict,
)
from cudnn_sweep.orchestrator.errors import ModelError, SpecError
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.field_case import with_field_cases
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.cells.suite import (
    CellAxes,
    GpuChoice,
    ProblemSpec,
    Replicates,
    SuiteSpec,
    too_many,
)
from cudnn_sweep.workloads.errors import CellsError, UserCodeError
from cudnn_sweep.workloads.strict import STRICT

SUITES = files("cudnn_sweep.workloads").joinpath("suites")
DEFAULT_RESULTS = "results"
INLINE = "inline"
LAUNCH_FILE = Path("cluster.yaml")  # used if the command names no file


class WebhookKeys(BaseModel, frozen=True, extra="forbid"):
    """Destination of a night's outcome. The URL is secret, so it is not in the launch file."""

    url_env: str | None = None
    """Name of an environment variable that contains the URL."""
    url_file: str | None = None
    """Path of a file that contains only the URL."""
    form: Literal["json", "slack", "apprise"] = "json"
    """Format of the post: the whole outcome as JSON, or a message for Slack or apprise."""

    @model_validator(mode="after")
    def _one_source(self) -> "WebhookKeys":
        # Validates the model because an error of a key prints the value, which may be the URL.
        if (self.url_env is None) == (self.url_file is None):
            raise ValueError("give either `url_env` or `url_file`")
        if self.url_env is not None and not self.url_env.isidentifier():
            raise ValueError("`url_env` takes the name of a variable that contains the URL")
        if self.url_file is not None and "://" in self.url_file:
            raise ValueError("`url_file` takes the path of a file that contains the URL")
        return self


class NightlyKeys(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """Settings of `sweep nightly`."""

    suite: str = "nightly"
    """Suite that a night runs. It is the name of a bundled suite, or a .yaml file."""
    minutes: PositiveFloat = 60.0
    """Time limit in minutes. No block starts after this time."""
    wait_minutes: NonNegativeFloat = 30.0
    """Longest wait in minutes for a busy GPU. The time limit begins after the wait."""
    last_good: str | None = None
    """Python of a virtual environment whose software is known to be good."""
    name: str | None = None
    """Name of the nights. It must be unique if several launch files use the same results. Default:
    `cluster_name`, or the name of the file."""
    webhook: WebhookKeys | None = None
    """Destination to which the outcome of a night is posted."""
    report_url: str | None = None
    """URL of the folder of the reports. Messages link to DATE/night.html in this folder."""

    @model_validator(mode="after")
    def _link_without_key(self) -> "NightlyKeys":
        # Validates the model because an error of a key prints the value.
        if self.report_url and re.match(r"(\w+:)?/*[^/]*@", self.report_url):
            raise ValueError("`report_url` takes a URL without user and password")
        return self


class SweepSpec(BaseModel):
    """Cells that a sweep measures, and their place. Some keys replace those of the suite."""

    model_config = STRICT

    suite: str | None = None
    """Name of a bundled suite, or a .yaml file. The default without `cells` is `quick`."""
    cells: list[CellAxes] | None = Field(default=None, min_length=1)
    """Cells to measure. Give either `suite` or `cells`."""
    problems: dict[str, ProblemSpec] = {}
    """Convolutions of your own. `cells` can refer to their names."""
    configs: list[Config] | None = Field(default=None, min_length=1)
    """Configs to compare. They replace those of the suite."""
    replicates: Replicates | None = None
    """Number of blocks per cell, such as `5` or `{until: decided, at_most: 20}`."""
    measure: MeasureSpec | None = None
    """How trials measure. Each key here replaces the same key of the suite."""
    gpus: GpuChoice | None = None
    """GPUs to run on. Replaces `gpus` of the suite."""
    results: str = DEFAULT_RESULTS
    """Folder or URL for the results, such as s3://bucket/sweeps."""
    address: str | None = None
    """HOST:PORT of a running cluster's dashboard, or `auto` on a node of the cluster."""
    token: str | None = None
    """Path of a file that contains the cluster's token."""
    allow_unauthenticated: bool = False
    """Whether to use a running cluster that accepts jobs without a token."""
    preload: list[str] = []
    """Packages that the fork server imports in addition to those of the suite."""
    minutes: PositiveFloat | None = None
    """Time limit of a launch in minutes. `sweep launch --minutes` overrides it."""
    nightly: NightlyKeys = NightlyKeys()
    """Settings of `sweep nightly`."""

    @field_validator("suite", "nightly")
    @classmethod
    def _known_suite(cls, value: str | NightlyKeys | None) -> str | NightlyKeys | None:
        name = value.suite if isinstance(value, NightlyKeys) else value
        if name is not None and (fault := _no_suite(name)):
            raise ValueError(fault)
        return value

    @model_validator(mode="after")
    def _one_source(self) -> "SweepSpec":
        if self.suite is not None and self.cells is not None:
            raise ValueError("give `suite` or `cells`, not both")
        if self.cells is not None:
            usual = SuiteSpec(cells=[CellAxes(workload="noop")])
            if fault := too_many(self.cells, self.configs or usual.configs, self.replicates):
                raise ValueError(fault)
        return self


def choose_suite(
    spec: SweepSpec, name: str | None, replicates: Replicates | None = None
) -> tuple[str, SuiteSpec]:
    """Return the suite's name and the suite. `name` and `replicates` override the launch file.
    Raises SpecError for an unknown suite, LaunchFileError for a mistake in the suite's file.
    """
    if replicates is not None:
        spec = spec.model_copy(update={"replicates": replicates})
    if name is None and spec.cells is not None:
        chosen, suite = INLINE, SuiteSpec.model_construct(cells=spec.cells, problems=spec.problems)
    else:
        chosen = name or spec.suite or "quick"
        suite = load_suite(chosen)
    keys = ("configs", "replicates", "gpus")
    changed = {key: value for key in keys if (value := getattr(spec, key)) is not None}
    without_gpu = dict.fromkeys(changed.keys() - {"gpus"})
    if spec.measure is not None:  # keys that are not given keep the suite's values
        written = {key: getattr(spec.measure, key) for key in spec.measure.model_fields_set}
        changed["measure"] = suite.measure.model_copy(update=written)
        if suite.without_gpu.measure is not None:
            without_gpu["measure"] = suite.without_gpu.measure.model_copy(update=written)
    changed["without_gpu"] = suite.without_gpu.model_copy(update=without_gpu)
    suite = suite.model_copy(update=changed)
    if fault := too_many(suite.cells, suite.configs, suite.replicates):
        raise SpecError(f"metadata.sweep with suite {chosen}: {fault}")
    return chosen, suite


@contextmanager
def cells_named(file: Path, suite: str) -> Iterator[None]:
    """Add the file and line of a cell to an error about the cell."""
    try:
        yield
    except CellsError as error:
        kind = ModelError if isinstance(error.__cause__, UserCodeError) else SpecError
        at: tuple[str | int, ...] = ("cells", error.number)
        if suite == INLINE:
            at = ("metadata", "sweep", *at)
        elif suite in suite_names():
            raise kind(f"suite {suite}: cells[{error.number}]: {error}") from None
        elif is_path(suite):
            file = Path(suite)
        else:
            raise kind(str(error)) from None  # the command line names the cell, so there is no file
        line = read_document(file).line(at)
        raise kind(f"{file}:{line}: {dotted(at)}: {error}") from None


def load_suite(name: str) -> SuiteSpec:
    """Load a bundled suite or a .yaml file. Raises SpecError or LaunchFileError."""
    if fault := _no_suite(name):
        raise SpecError(fault)
    if is_path(name):
        return read_strict(Path(name), SuiteSpec)
    return _bundled(name)


@cache
def _bundled(name: str) -> SuiteSpec:
    with as_file(SUITES.joinpath(f"{name}.yaml")) as file:
        suite = read_strict(file, SuiteSpec)
    return with_field_cases(suite) if name == "field" else suite


def _no_suite(name: str) -> str | None:
    names = suite_names()
    if name in names or (is_path(name) and Path(name).exists()):
        return None
    fault = f"unknown suite {name!r}{did_you_mean(name, names)}"
    fault = f"no file {name}" if is_path(name) else fault
    return f"{fault}; allowed: {', '.join(names)}, or a .yaml file"


def is_path(suite: str) -> bool:
    return suite.endswith((".yaml", ".yml"))


def suite_names() -> list[str]:
    return sorted(file.name.removesuffix(".yaml") for file in SUITES.iterdir())


def asked_file(
    typed: Path | None, suite: str | None, results: str | None
) -> tuple[Path | None, str | None, str]:
    """Return the launch file, the suite and a note or "". Raises SpecError or LaunchFileError."""
    if typed is not None and typed.suffix == ".py":
        raise SpecError(
            f"{typed} is a Python file; allowed: a launch file or a suite in YAML. For a network "
            f"in this file, use: sweep advise {typed}:NAME --input SIZES"
        )
    if typed is not None and not _is_suite(typed):
        return typed, suite, ""
    if typed is not None and suite is not None:
        raise SpecError(f"found two suites, {typed} and --suite {suite}; give only one")
    chosen = suite if typed is None else str(typed)
    if LAUNCH_FILE.exists():
        note = f"{typed} is a suite; {LAUNCH_FILE} says where it runs." if typed else ""
        return LAUNCH_FILE, chosen, note
    place = f"./{DEFAULT_RESULTS}" if results is None else results
    note = f"Found no {LAUNCH_FILE}. The sweep runs on this machine. Its results go to {place}."
    return None, chosen, note


def results_of_the_launch_file() -> str:
    """Return the results location of ./cluster.yaml, or the default if there is no such file."""
    if not LAUNCH_FILE.exists():
        return DEFAULT_RESULTS
    return check_part(read_document(LAUNCH_FILE), SweepSpec, ("metadata", "sweep")).results


def _is_suite(file: Path) -> bool:
    if not file.is_file():
        return False
    keys = read_document(file).values
    return ("cells",) in keys and ("metadata",) not in keys


@dataclass(frozen=True, kw_only=True, slots=True)
class NightName:
    date: date
    launch: str
    """Name from `launch_name`, which all nights of a launch file share."""

    @property
    def sweep_id(self) -> str:
        return f"night-{self.date}-{self.launch}"

    @property
    def confirm_id(self) -> str:
        """Id of the sweep that measures the night's alerts again."""
        return f"confirm-{self.date}-{self.launch}"


def launch_name(file: LaunchFile[SweepSpec]) -> str:
    """Return the first of `nightly.name`, `cluster_name` and the file's name that is not empty."""
    name = file.sweep.nightly.name or file.ray_part.get("cluster_name") or file.path.stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", str(name))


def is_night_of(sweep_id: str, launch: str) -> bool:
    return is_of(sweep_id, launch) and sweep_id.startswith("night-")


def is_of(sweep_id: str, launch: str) -> bool:
    """Return whether a sweep belongs to a night of `launch`."""
    pattern = rf"(night|confirm)-\d{{4}}-\d\d-\d\d-{re.escape(launch)}"
    return re.fullmatch(pattern, sweep_id) is not None
