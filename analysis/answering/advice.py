"""What a job gains, typed, for whoever displays it: the rows of advice.

The arithmetic is in sql/advice.sql, and so are the columns' meanings.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cudnn_sweep.analysis.answering.answers import answer
from cudnn_sweep.analysis.asking.database import Database, open_database
from cudnn_sweep.analysis.asking.queries import Value
from cudnn_sweep.analysis.storing.store import Store

UNDECIDED, NO_DIFFERENCE, DOES_NOT_FIT, FAILS = (
    "undecided",
    "no difference",
    "does not fit",
    "fails",
)

STORED = """
select
    sweep_id,
    cell_id,
    any_value(direction) as direction,
    any_value(input_shape) as input_shape,
    any_value(model_arguments is not null) as is_model,
    any_value(device) as device,
    any_value(gpu) as gpu
from records
where list_contains(string_split($suites, ','), suite) and workload = $workload
group by sweep_id, cell_id
order by max(started_at) desc, cell_id
"""
KERNELS = """
with told as (
    select
        sweep_id,
        block,
        benchmark,
        kernels
    from records
    where
        ($sweep_id is null or sweep_id glob $sweep_id)
        and ($cell_id is null or cell_id = $cell_id)
        and status = 'ok' and twin = 0 and errata is null and kernels is not null
    qualify
        count(*) over (partition by sweep_id, block) = 2
        and count(distinct benchmark) over (partition by sweep_id, block) = 2
),

first_block as (
    select * from told
    qualify dense_rank() over (order by sweep_id desc, block) = 1
),

launches as (
    select
        benchmark,
        unnest(list_filter(kernels, lambda each: each.kind = 'convolution')) as kernel
    from first_block
)

select
    coalesce(kernel.operation, '?') as operation,
    kernel.name as kernel,
    count(*) filter (where not benchmark) as baseline,
    count(*) filter (where benchmark) as candidate
from launches
group by all
having baseline <> candidate
order by abs(candidate - baseline) desc, operation, kernel
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """One cell and contrast, for one kind of start."""

    workload: str
    input_shape: str
    regime: str
    gpu: str
    contrast: str
    other_settings: str
    loop_kind: str | None
    in_turns: bool
    launch_bound: bool
    power_capped: bool
    start: str
    asked: bool
    advice: str
    setting: str
    settled: bool
    why: str
    sure: float | None
    job_steps: int
    first_calls: float | None
    shapes_met: int | None
    new_shape_ms: float | None
    baseline_s: float | None
    candidate_s: float | None
    saved_s: float | None
    saved_s_low: float | None
    saved_s_high: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    mean_ratio_low: float | None
    mean_ratio_high: float | None
    baseline_ms: float | None
    candidate_ms: float | None
    step_ratio: float | None
    step_ratio_low: float | None
    step_ratio_high: float | None
    extra_start_s: float | None
    extra_start_s_low: float | None
    extra_start_s_high: float | None
    break_even_steps: float | None
    break_even_low: float | None
    break_even_high: float | None
    baseline_cache_saves_s: float | None
    candidate_cache_saves_s: float | None
    blocks: int
    recorded_blocks: int
    at_most: int | None
    start_blocks: int
    blocks_needed: int | None
    minutes_needed: float | None
    block_s: float
    baseline_failed: int
    candidate_failed: int
    baseline_out_of_memory: int
    candidate_out_of_memory: int
    baseline_message: str | None
    candidate_message: str | None
    baseline_first_bytes: int | None
    candidate_first_bytes: int | None
    baseline_steady_reserved_bytes: int | None
    candidate_steady_reserved_bytes: int | None
    baseline_results: int
    candidate_results: int
    candidate_varies_in: list[str] | None
    no_effect_reason: str | None
    cell_id: str

    @property
    def is_for_candidate(self) -> bool:
        """Of any setting but benchmark, whose values are called on and off."""
        return self.advice == self.contrast.rpartition(" → ")[2]


def advices(store: Store, sweep_id: str | None, **values: Value) -> list[Advice]:
    """Rows of `advice`: of each cell the start that was asked for, then the other one."""
    return answer(Advice, store, sweep_id, "advice", values)


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelChange:
    """Convolution kernels of one operation that a step launches under one config and not the other."""

    operation: str
    kernel: str
    baseline: int
    """Launches in a step."""
    candidate: int


def kernel_changes(
    database: Database, sweep_id: str | None, cell_id: str | None = None
) -> list[KernelChange]:
    """Between a process of each config, of the first block in which both told their kernels: of one sweep or the
    newest, and of one cell where it is given.
    """
    rows = database.query(KERNELS, {"sweep_id": sweep_id, "cell_id": cell_id}).to_pylist()
    return [KernelChange(**row) for row in rows]


@dataclass(frozen=True, kw_only=True, slots=True)
class RankPrediction:
    """What so many ranks would do under one config, predicted from single processes; see sql/choice_stability.sql."""

    benchmark: bool
    errata: str | None
    processes: int
    rank_agreement: float
    rank_agreement_low: float
    rank_agreement_high: float
    rank_bits_agreement: float | None
    straggler_cost: float | None
    search_stalls: float | None


def rank_predictions(store: Store, sweep_id: str, ranks: int) -> list[RankPrediction]:
    return answer(RankPrediction, store, sweep_id, "choice_stability", {"ranks": ranks})


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredCell:
    """A cell that a sweep measured, by what its id cannot be reckoned without."""

    sweep_id: str
    cell_id: str
    direction: str
    input_shape: list[int]
    is_model: bool
    device: Literal["cuda", "cpu"]
    gpu: str


def stored_cells(store: Store, suites: Sequence[str], workload: str) -> list[StoredCell]:
    """Of a workload, in sweeps of these suites; the newest first."""
    with open_database(store) as database:
        values: dict[str, Value] = {"workload": workload, "suites": ",".join(suites)}
        return [StoredCell(**row) for row in database.query(STORED, values).to_pylist()]


@dataclass(frozen=True, kw_only=True, slots=True)
class Alternative:
    """What another layout or precision does to the time per step, both as `contrast` has them."""

    contrast: str
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    wall_verdict: str


def alternatives(store: Store, sweep_id: str, precision: str) -> list[Alternative]:
    """Of a sweep of one step in several layouts and precisions; what is measured, and no more."""
    of_layout: dict[str, Value] = {"axis": "layout", "baseline": "contiguous"}
    layouts = answer(Alternative, store, sweep_id, "axis_effect", of_layout)
    precisions = answer(Alternative, store, sweep_id, "axis_effect", {"baseline": precision})
    return sorted([*layouts, *precisions], key=lambda each: each.ratio or math.inf)
