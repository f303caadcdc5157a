"""SweepRequest is what a launch file and a command line ask for. Planned is a request's plan."""

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
    """The user's modules that the fork server imports once, besides the suite's."""
    budget_minutes: float | None = None
    launched_at: float | None = None
    """`monotonic()` when the time limit began. If None, the limit begins with the first block."""
    may_skip: bool = False
    """Whether trials that lack a package or compiler are omitted, as in a night, or fail."""
    job: Job | None = None
    """The job to advise on. With a job, every second block starts with an empty compute cache."""
    codes: Mapping[str, CodeLocation] = field(default_factory=dict)
    """Locations of the codes that a gate or bisect compares. The key is a config's `code`."""
    min_effect: float = MIN_EFFECT
    one_sided: bool = False
    """Whether a cell is also decided if its candidate is surely not slower, as in a gate."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    request: SweepRequest
    machine: Survey
    preload: tuple[str, ...]
    whole: Plan
    chosen: Plan
    """The trials of `whole` that `--only` selects."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Reason for each omitted model or execution. The key is its name. See `may_skip`."""


def request_of(file: LaunchFile[SweepSpec], options: LaunchOptions) -> SweepRequest:
    """Return the request. Raises SpecError or LaunchFileError for a mistake in the suite."""
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
