"""What a kept choice keeps, typed, for whoever displays it: the rows of sql/freezes.sql, which explains them."""

from dataclasses import dataclass

from cudnn_sweep.analysis.answering.answers import answer
from cudnn_sweep.analysis.storing.store import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class Freeze:
    """One sweep, cell and errata."""

    rules: int
    off_ms: float | None
    on_ms: float | None
    frozen_ms: float | None
    on_ratio: float | None
    frozen_ratio: float | None
    kept: float | None
    off_first_ms: float | None
    on_first_ms: float | None
    frozen_first_ms: float | None
    off_first_warm_ms: float | None
    on_first_warm_ms: float | None
    frozen_first_warm_ms: float | None
    off_peak_bytes: int | None
    on_peak_bytes: int | None
    frozen_peak_bytes: int | None
    off_results: int
    on_results: int
    frozen_results: int
    off_choices: int
    on_choices: int
    frozen_choices: int
    off_l2_error: float | None
    on_l2_error: float | None
    frozen_l2_error: float | None
    processes: int
    errata: str


def freezes(store: Store, sweep_id: str | None) -> list[Freeze]:
    return answer(Freeze, store, sweep_id, "freezes", {})
