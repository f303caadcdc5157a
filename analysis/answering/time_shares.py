"""Where a sweep's wall time went, typed, for whoever displays it: the rows of where_time_goes."""

from dataclasses import dataclass

from cudnn_sweep.analysis.answering.answers import answer
from cudnn_sweep.analysis.storing.store import Store


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
