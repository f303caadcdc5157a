"""What each cell and contrast shows, typed, for whoever displays it: the rows of two questions.

The arithmetic is in sql/helps_or_hurts.sql and sql/break_even.sql, and so are the columns' meanings.
"""

from dataclasses import dataclass, fields
from typing import TypeVar

from cudnn_sweep.analysis.database import Database, open_database
from cudnn_sweep.analysis.queries import Value, load_query
from cudnn_sweep.analysis.store import Store

Row = TypeVar("Row", "Verdict", "BreakEven")


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """One cell and contrast; `no_effect` is shown where the setting cannot have mattered."""

    workload: str
    problem: str | None
    direction: str
    input_shape: str
    regime: str
    precision: str
    layout: str
    gpu: str
    contrast: str
    other_settings: str
    loop_kind: str | None
    blocks: int
    split_blocks: int
    unpaired_blocks: int
    baseline_ms: float | None
    candidate_ms: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    wall_verdict: str
    device_ratio: float | None
    device_verdict: str | None
    net_ratio: float | None
    net_verdict: str | None
    no_effect_reason: str | None
    wall_statistical_verdict: str
    device_statistical_verdict: str | None
    baseline_peak_reserved_bytes: int | None
    candidate_peak_reserved_bytes: int | None
    cell_id: str
    env_hash: str
    software_hash: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakEven:
    """When one cell's extra cold cost has paid for itself, for one state of the compute cache."""

    workload: str
    problem: str | None
    direction: str
    input_shape: str
    regime: str
    precision: str
    layout: str
    gpu: str
    contrast: str
    other_settings: str
    loop_kind: str | None
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
    cell_id: str
    env_hash: str
    software_hash: str


def verdicts(store: Store, sweep_id: str | None = None, **values: Value) -> list[Verdict]:
    """Rows of `helps_or_hurts`, of one sweep or of all; `values` are further parameters of it."""
    with open_database(store, sweep_id) as database:
        return _rows(Verdict, database, "helps_or_hurts", values)


def break_evens(store: Store, sweep_id: str | None = None, **values: Value) -> list[BreakEven]:
    """Rows of `break_even`, as `verdicts` has those of `helps_or_hurts`."""
    with open_database(store, sweep_id) as database:
        return _rows(BreakEven, database, "break_even", values)


def _rows(
    row_type: type[Row], database: Database, name: str, values: dict[str, Value]
) -> list[Row]:
    question = load_query(name)
    table = database.query(question.sql, question.values(values))
    columns = [field.name for field in fields(row_type)]
    return [row_type(**row) for row in table.select(columns).to_pylist()]
