"""Job: what the user is going to run. A sweep that measures for its advice stops when that is decided."""

from dataclasses import asdict, dataclass

from cudnn_sweep.analysis.asking.queries import Value

DEFAULT_STEPS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """The parameters of `advice` that say what the user is going to run."""

    steps: int = DEFAULT_STEPS
    """Steps in one process."""
    hours: float | None = None
    """Instead: as many steps as the baseline makes in so many hours."""
    state: str = "container"
    """container or warm: whether CUDA's compute cache is empty when a process starts."""
    memory_limit_gib: float | None = None
    """What needs more does not fit."""
    runs: int = 1
    """The interval holds the mean of so many runs each way."""

    @property
    def blocks_owed(self) -> int:
        """Least blocks of an advice: the first one fills the compute cache for a warm one."""
        return 2 if self.state == "warm" else 1

    def values(self) -> dict[str, Value]:
        return asdict(self)
