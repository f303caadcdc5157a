"""Which GPUs are slower than their peers, typed, for whoever displays it: the rows of slow_gpus."""

from dataclasses import dataclass

from cudnn_sweep.analysis.answering.answers import answer
from cudnn_sweep.analysis.storing.store import Store


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
