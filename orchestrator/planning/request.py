"""Defines the request for a sweep, and the plan that is made from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cudnn_sweep.analysis.results.min_effect import MIN_EFFECT
from cudnn_sweep.analysis.store.location import Location
from cudnn_sweep.cluster.launch_file import LaunchFile
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.planning.session import CodeLocation, Job
from cudnn_sweep.orchestrator.planning.spec import SweepSpec, choose_suite
from cudnn_sweep.workloads.cells.suite import SuiteSpec
from cudnn_sweep.workloads.survey import Survey


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepRequest:
    options: LaunchOptions
    suite_name: str
    suite: SuiteSpec
    results: str
    """Location of the results, as the user typed it."""
    preload: tuple[str, ...] = ()
    """Modules that the fork server imports in addition to those of the suite."""
    budget_minutes: float | None = None
    launched_at: float | None = None
    """Start of the time limit, by `time.monotonic`. If None, it starts with the first block."""
    may_skip: bool = False
    """Whether trials that lack a package or a compiler are skipped. If not, they fail."""
    job: Job | None = None
    codes: Mapping[str, CodeLocation] = field(default_factory=dict)
    """Locations of the compared versions of the code. The key is `Config.code`."""
    min_effect: float = MIN_EFFECT
    one_sided: bool = False
    """Whether a cell is also decided if its candidate is surely not slower."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    request: SweepRequest
    machine: Survey
    preload: tuple[str, ...]
    whole: Plan
    chosen: Plan
    """Plan of the trials that `--only` selects."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Reason for each skipped model or execution, by its name."""


def request_of(file: LaunchFile[SweepSpec], options: LaunchOptions) -> SweepRequest:
    """Make a request from a launch file and options. Raises SpecError or LaunchFileError."""
    spec = file.sweep
    name, suite = choose_suite(spec, options.suite, options.blocks)
    return SweepRequest(
        options=options,
        suite_name=name,
        suite=suite,
        results=Location(options.results or spec.results).text,
        preload=tuple(spec.preload),
        budget_minutes=options.minutes or spec.minutes,
    )
