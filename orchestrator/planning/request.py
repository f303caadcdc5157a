"""SweepRequest: a suite, options and a results location, from the launch file and the command line.
Planned: the plan of a request on a machine.
"""

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
    """The command line's options as they were typed."""
    suite_name: str
    suite: SuiteSpec
    results: str
    """Location of the results, as it was typed."""
    preload: tuple[str, ...] = ()
    """Modules that the user names for the fork server to import once, besides the suite's own."""
    budget_minutes: float | None = None
    """Time limit; None: no limit."""
    launched_at: float | None = None
    """When the time limit began, by `monotonic`; None: it begins with the first block."""
    may_skip: bool = False
    """Whether to leave out what cannot run for lack of a package or compiler, as a night does."""
    job: Job | None = None
    """The job to advise on; with a job, every second block starts with an empty compute cache."""
    codes: Mapping[str, CodeLocation] = field(default_factory=dict)
    """Locations of the codes that a gate or bisect compares, by `code` of their configs."""
    min_effect: float = MIN_EFFECT
    one_sided: bool = False
    """Whether a cell is also decided once its candidate is shown to be not slower, as in a gate."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    request: SweepRequest
    machine: Survey
    preload: tuple[str, ...]
    """Modules that the fork server imports once."""
    whole: Plan
    chosen: Plan
    """The part of `whole` that `--only` selects."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Reason why a night leaves a model or an execution out, by its name."""


def request_of(file: LaunchFile[SweepSpec], options: LaunchOptions) -> SweepRequest:
    """Return the request of a launch file and a command line. Raises SpecError for a bad suite."""
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
