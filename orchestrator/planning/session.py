"""Defines the session of a launch, and the job for which a user wants advice."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

from cudnn_sweep.analysis.engine.queries import Value
from cudnn_sweep.analysis.results.contrast import Contrast
from cudnn_sweep.analysis.results.min_effect import MIN_EFFECT
from cudnn_sweep.analysis.store.progress import StoredTrial, planned
from cudnn_sweep.orchestrator.errors import OrchestratorError, SpecError
from cudnn_sweep.orchestrator.locks.private_folder import our_temporary_folder
from cudnn_sweep.orchestrator.planning.plan import Plan, Shard
from cudnn_sweep.workloads.cells.suite import SuiteSpec

DEFAULT_STEPS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A job of the user. Its fields are parameters of the question `advice`."""

    steps: int = DEFAULT_STEPS
    """Number of steps in one process."""
    hours: float | None = None
    """Hours that the job takes with the baseline. If given, `steps` is ignored."""
    state: str = "container"
    """`container` if CUDA's compute cache is empty at the start, `warm` if it is filled."""
    memory_limit_gib: float | None = None
    """Memory of the GPU. Advice excludes settings that need more."""
    runs: int = 1
    """Number of runs of the job. Advice predicts the mean of their times."""

    @property
    def blocks_owed(self) -> int:
        """Smallest number of blocks that advice needs."""
        return 2 if self.state == "warm" else 1  # the first block fills the cache

    def values(self) -> dict[str, Value]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeLocation:
    """Location of the code of a trial. `variables` are environment variables of its process."""

    folder: Path | None
    python: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    sweep_id: str
    launch_id: str
    plan: Plan
    """Trials that this launch still has to run."""
    own: Plan
    """All trials of the launch's shard, or of the whole plan if there is no shard."""
    reason: str = ""
    """Text for the user that explains the choice of this sweep."""
    resumed: bool = False
    contrasts: tuple[Contrast, ...] = ()
    """Contrasts between the configs of the whole sweep."""
    plan_hash: str
    """Hash of the whole sweep's plan."""
    plan_trials: int
    """Number of trials of the whole sweep's plan."""
    looks: tuple[int, ...] = ()
    job: Job | None = None
    """Job whose advice decides the cells. If None, verdicts decide them."""
    cell_by_cell: bool = False
    """Whether each cell reaches its first interim analysis before the next cell starts."""
    begun: Mapping[str, int] = field(default_factory=dict)
    """Number of blocks that earlier launches began, by cell_id."""
    of_cells: int = 0
    """Number of cells of the whole sweep's plan."""
    plan_blocks: int = 0
    """Number of blocks of the whole sweep's plan."""
    shard: Shard | None = None
    retries: dict[str, int]
    """Number of the next retry of each failed trial, counted from 1, by trial_id."""
    scratch: Path
    """Folder for compute caches on each node. It is kept until the sweep is finished."""
    folder: Path
    """Folder from which relative paths of the user's workload files are resolved."""
    gpus: tuple[str, ...] = ()
    """UUIDs of the GPUs that the launch uses on one machine."""
    preload: tuple[str, ...] = ()
    pythons: Mapping[str, Path] = field(default_factory=dict)
    """Python interpreters of other environments. The key is a trial's `software`."""
    codes: Mapping[str, CodeLocation] = field(default_factory=dict)
    min_effect: float = MIN_EFFECT
    one_sided: bool = False

    @property
    def lock_name(self) -> str:
        return self.plan_hash + (f"-{self.shard.number}-of-{self.shard.of}" if self.shard else "")

    def by_ranks(self) -> Iterator["Session"]:
        """Yield a session for each number of ranks, in increasing order."""
        for count in sorted({trial.cell.rank_count for trial in self.plan.trials}):
            plan, own = self.plan.with_ranks(count), self.own.with_ranks(count)
            yield replace(self, plan=plan, own=own)

    def lacks(self, stored: Iterable[StoredTrial], hopeless: Collection[str] = ()) -> bool:
        """Return whether records are missing. Cells in `hopeless` are ignored."""
        recorded = {trial.trial_id for trial in planned(stored)}
        left = self.own.without(recorded).trials
        given_up = sum(trial.cell.cell_id in hopeless for trial in left)
        return given_up < (self.plan_trials - len(recorded) if self.shard is None else len(left))

    def cells_without_ok(self, stored: Iterable[StoredTrial]) -> set[str]:
        """Return the ids of the cells that have records, but no successful one."""
        statuses = {trial.trial_id: trial.status for trial in stored}
        recorded = [trial for trial in self.own.trials if trial.trial_id in statuses]
        measured = {t.cell.cell_id for t in recorded if statuses[t.trial_id] == "ok"}
        return {trial.cell.cell_id for trial in recorded} - measured

    def fallback_folders(self) -> list[Path]:
        """Return folders for records that cannot be written to the results."""
        places = [Path("/dev/shm"), Path.home()]
        with suppress(OrchestratorError):  # the other folders remain
            places.insert(0, our_temporary_folder())
        return [place / f"sweep-held-{self.launch_id}" for place in places]


def session_of(plan: Plan, sweep_id: str, folder: Path) -> Session:
    """Return a session that runs the whole plan as a new sweep, with scratch files in `folder`."""
    return Session(
        sweep_id=sweep_id,
        launch_id=f"launch-{sweep_id}",
        plan=plan,
        own=plan,
        plan_hash=plan.plan_hash,
        plan_trials=len(plan.trials),
        of_cells=len(plan.cell_ids()),
        plan_blocks=sum(1 for _ in plan.blocks()),
        retries={},
        scratch=folder / "scratch",
        folder=Path.cwd(),
    )


def modules_to_preload(suite: SuiteSpec, own: Collection[str]) -> tuple[str, ...]:
    """Return the modules to preload. Raises SpecError if a module in `own` is not installed."""
    if missing := [module for module in own if not _is_installed(module)]:
        raise SpecError(f"metadata.sweep.preload: {missing[0]} is not installed")
    # the chosen cells may not need each module of the suite
    return tuple(dict.fromkeys([*filter(_is_installed, suite.preload), *own]))


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module.partition(".")[0]) is not None
    except ValueError:  # not the name of a module, or __main__
        return False
