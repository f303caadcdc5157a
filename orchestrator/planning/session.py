"""Session is all that a slot needs to know of a launch. Job is what the user will run."""

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
    """What the user is going to run. The fields are parameters of the question `advice`."""

    steps: int = DEFAULT_STEPS
    """Number of steps in one process."""
    hours: float | None = None
    """Length of the job. It replaces `steps`: the baseline's speed gives the number of steps."""
    state: str = "container"
    """CUDA's compute cache when the process starts: empty (`container`) or filled (`warm`)."""
    memory_limit_gib: float | None = None
    """Memory of the GPU; a setting that needs more does not fit."""
    runs: int = 1
    """Number of runs of the job. The confidence interval is for the mean of these runs."""

    @property
    def blocks_owed(self) -> int:
        """The fewest blocks that advice needs. For a warm start, a first block has to fill the cache."""
        return 2 if self.state == "warm" else 1

    def values(self) -> dict[str, Value]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeLocation:
    """Location of a trial's code. `variables` are environment variables, such as SWEEP_MODULES."""

    folder: Path | None
    python: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    sweep_id: str
    launch_id: str
    plan: Plan
    """The trials of `own` that this launch runs, since they have no record or are to be retried."""
    own: Plan
    """All trials of this launch's shard or, without a shard, of the whole plan."""
    reason: str = ""
    """Printed text that says why the launch runs this sweep."""
    resumed: bool = False
    contrasts: tuple[Contrast, ...] = ()
    """The contrasts of the whole sweep's configs."""
    plan_hash: str
    """Hash of the whole sweep's plan."""
    plan_trials: int
    """Number of trials of the whole sweep's plan."""
    looks: tuple[int, ...] = ()
    """Block counts at which a cell is tested. If empty, the number of blocks is fixed."""
    job: Job | None = None
    """The job whose advice decides a cell. If None, the cell's verdict decides it."""
    cell_by_cell: bool = False
    """Whether each cell runs to its first look before the next starts. Set if time is short."""
    begun: Mapping[str, int] = field(default_factory=dict)
    """Number of blocks begun by earlier launches, by cell_id."""
    of_cells: int = 0
    """Number of cells of the whole sweep's plan."""
    plan_blocks: int = 0
    """Number of blocks of the whole sweep's plan. If there are looks, fewer blocks may run."""
    shard: Shard | None = None
    retries: dict[str, int]
    """Which retry each failed trial now makes, counted from 1. The key is a trial_id."""
    scratch: Path
    """Folder on each node for compute caches; it stays until the sweep is finished."""
    folder: Path
    """The launch's folder, to which paths of the user's workload files are relative. On a cluster
    it is `Path()`, since workers start in a copy of the launch's folder."""
    gpus: tuple[str, ...] = ()
    """UUIDs of the GPUs that the launch uses on this machine, or on one node of a cluster."""
    preload: tuple[str, ...] = ()
    pythons: Mapping[str, Path] = field(default_factory=dict)
    """Python interpreters of other environments. The key is a trial's `software`."""
    codes: Mapping[str, CodeLocation] = field(default_factory=dict)
    """Locations of the codes that a gate or bisect compares. The key is a config's `code`."""
    min_effect: float = MIN_EFFECT
    one_sided: bool = False
    """Whether a cell is also decided if its candidate is surely not slower, as in a gate."""

    @property
    def lock_name(self) -> str:
        """Name of the sweep's lock. It differs between shards, which may run side by side."""
        return self.plan_hash + (f"-{self.shard.number}-of-{self.shard.of}" if self.shard else "")

    def by_ranks(self) -> Iterator["Session"]:
        """Yield a session for each number of ranks, smallest first. A slot has a GPU per rank."""
        for count in sorted({trial.cell.rank_count for trial in self.plan.trials}):
            plan, own = self.plan.with_ranks(count), self.own.with_ranks(count)
            yield replace(self, plan=plan, own=own)

    def lacks(self, stored: Iterable[StoredTrial], hopeless: Collection[str] = ()) -> bool:
        """Return whether this shard or sweep lacks records of cells that are not in `hopeless`."""
        recorded = {trial.trial_id for trial in planned(stored)}
        left = self.own.without(recorded).trials
        given_up = sum(trial.cell.cell_id in hopeless for trial in left)
        return given_up < (self.plan_trials - len(recorded) if self.shard is None else len(left))

    def cells_without_ok(self, stored: Iterable[StoredTrial]) -> set[str]:
        """Return the ids of the cells that have records, but no record whose status is ok."""
        statuses = {trial.trial_id: trial.status for trial in stored}
        recorded = [trial for trial in self.own.trials if trial.trial_id in statuses]
        measured = {t.cell.cell_id for t in recorded if statuses[t.trial_id] == "ok"}
        return {trial.cell.cell_id for trial in recorded} - measured

    def fallback_folders(self) -> list[Path]:
        """Return folders on other disks or in memory, for records that the results cannot take."""
        places = [Path("/dev/shm"), Path.home()]
        with suppress(OrchestratorError):  # the other folders remain
            places.insert(0, our_temporary_folder())
        return [place / f"sweep-held-{self.launch_id}" for place in places]


def session_of(plan: Plan, sweep_id: str, folder: Path) -> Session:
    """Return the session of a new sweep that runs the whole plan, with its scratch below `folder`."""
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
    """Return the modules to import once. Raises SpecError if a module in `own` is not installed."""
    if missing := [module for module in own if not _is_installed(module)]:
        raise SpecError(f"metadata.sweep.preload: {missing[0]} is not installed")
    # the chosen cells may not need a missing module of the suite
    return tuple(dict.fromkeys([*filter(_is_installed, suite.preload), *own]))


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module.partition(".")[0]) is not None
    except ValueError:  # no name of a module, or __main__
        return False
