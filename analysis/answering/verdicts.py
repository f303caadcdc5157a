"""What each cell and contrast shows, typed, for whoever displays it: the rows of two questions.

The arithmetic is in sql/helps_or_hurts.sql and sql/break_even.sql, and so are the columns' meanings.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from cudnn_sweep.analysis.answering.answers import answer
from cudnn_sweep.analysis.asking.queries import Value
from cudnn_sweep.analysis.storing.store import Store

CellKey: TypeAlias = tuple[str, str, str, str | None]
"""Cell, hardware, software, and the hash of a user's code: what trials have to share to be one cell's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OfCell:
    """A row about one cell."""

    cell_id: str
    env_hash: str
    software_hash: str
    workload_hash: str | None

    @property
    def key(self) -> CellKey:
        return self.cell_id, self.env_hash, self.software_hash, self.workload_hash


@dataclass(frozen=True, kw_only=True, slots=True)
class OfContrast(OfCell):
    """A row about one cell and contrast."""

    workload: str
    problem: str | None
    direction: str
    input_shape: str
    regime: str
    state: str | None
    precision: str
    layout: str
    gpu: str
    contrast: str
    other_settings: str
    loop_kind: str | None
    in_turns: bool

    @property
    def identity(self) -> tuple[str | bool | None, ...]:
        """What the answers about one cell and contrast have in common."""
        return *self.key, self.contrast, self.other_settings, self.loop_kind, self.in_turns


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict(OfContrast):
    """One cell and contrast; `no_effect` is shown where the setting cannot have mattered, `fails` where the
    candidate failed in more blocks than its baseline.
    """

    blocks: int
    split_blocks: int
    doubtful_blocks: int
    unpaired_blocks: int
    baseline_failed: int
    candidate_failed: int
    baseline_ms: float | None
    candidate_ms: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    wall_verdict: str
    wall_in_words: str
    headline: str | None
    by_choice: str | None
    blocks_needed: int | None
    block_s: float
    typical_ratio: float | None
    typical_ratio_low: float | None
    typical_ratio_high: float | None
    baseline_fastest_ms: float | None
    baseline_slowest_ms: float | None
    candidate_fastest_ms: float | None
    candidate_slowest_ms: float | None
    baseline_device_ms: float | None
    candidate_device_ms: float | None
    device_ratio: float | None
    device_ratio_low: float | None
    device_ratio_high: float | None
    device_verdict: str | None
    net_ratio: float | None
    net_verdict: str | None
    no_effect_reason: str | None
    launch_bound: bool | None
    warnings: list[str]
    wall_statistical_verdict: str
    device_statistical_verdict: str | None
    baseline_peak_reserved_bytes: int | None
    candidate_peak_reserved_bytes: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakEven(OfContrast):
    """When one cell's extra cold cost has paid for itself, for one state of the compute cache."""

    shape: str | None
    compute_cache: str
    outcome: str
    break_even_iterations: float | None
    break_even_low: float | None
    break_even_high: float | None
    tuning_blocks: int
    tuning_ms: float | None
    gain_blocks: int
    gain_ms: float | None
    gain_ms_low: float | None
    gain_ms_high: float | None
    no_effect_reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ContrastState:
    """Whether one cell and contrast is decided, as `decided` tells it."""

    cell_id: str
    contrast: str
    other_settings: str
    state: str
    recorded_blocks: int
    at_most: int | None
    blocks_needed: int | None
    block_s: float


FIRST_LOOK = 3  # blocks, as `so_far` in macros/shown.sql has it
SO_FAR = ("so_far_faster", "so_far_slower", "undecided")
TOLD_SHOWN = 5


def told_lines(verdicts: Iterable[Verdict], label: Callable[[Verdict], str]) -> Iterator[str]:
    """What a verdict alone does not tell: what the device shows where the loop waits for the CPU, and what
    processes chose; of the first cells that have it.
    """
    said = [
        f"{label(verdict)}: {text}."
        for verdict in verdicts
        for text in (verdict.headline, verdict.by_choice)
        if text
    ]
    yield from said[:TOLD_SHOWN]


def verdicts(store: Store, sweep_id: str | None = None, **values: Value) -> list[Verdict]:
    """Rows of `helps_or_hurts`, of one sweep or of all; `values` are further parameters of it."""
    return answer(Verdict, store, sweep_id, "helps_or_hurts", values)


def contrast_states(
    store: Store, sweep_id: str | None = None, **values: Value
) -> list[ContrastState]:
    """Rows of `decided`, as `verdicts` has those of `helps_or_hurts`."""
    return answer(ContrastState, store, sweep_id, "decided", values)


def break_evens(store: Store, sweep_id: str | None = None, **values: Value) -> list[BreakEven]:
    """Rows of `break_even`, as `verdicts` has those of `helps_or_hurts`."""
    return answer(BreakEven, store, sweep_id, "break_even", values)


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuSpeed:
    """One GPU and measure; the columns' meanings are in sql/slow_gpus.sql."""

    gpu: str
    host: str
    gpu_uuid: str
    measure: str
    finding: str
    """slow, fast, differs, alike or alone."""
    ratio: float | None
    speed: float
    speed_unit: str
    peers: int


def gpu_speeds(store: Store, sweep_id: str | None = None) -> list[GpuSpeed]:
    """Rows of `slow_gpus`: GPUs that are off come first, then model by model, the slowest before others."""
    return answer(GpuSpeed, store, sweep_id, "slow_gpus", {})


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeShare:
    """One part of the trials' time; the shares of a sweep add up to 1."""

    sweep_id: str
    part: str
    """start, one_time, build, cold, calibration, steady, checks, exit, other, log or gap."""
    measuring: bool
    trials: int
    median_s: float | None
    total_s: float
    overlapped_s: float
    """One-time costs that `total_s` leaves out: others of the block paid theirs meanwhile. Else 0."""
    share: float


def time_shares(store: Store, sweep_id: str | None = None) -> list[TimeShare]:
    """Rows of `where_time_goes`, of one sweep or of all; of each sweep the largest share first."""
    return answer(TimeShare, store, sweep_id, "where_time_goes", {})
