"""What a job gains, and what a kept choice keeps, for whoever displays it: the rows of `advice` and `freezes`.

The arithmetic is in their SQL, and so are the columns' meanings.
"""

import math
from collections.abc import Sequence

from cudnn_sweep.analysis.answering.answers import AnswerRow
from cudnn_sweep.analysis.asking.database import Database, open_database
from cudnn_sweep.analysis.asking.queries import Value
from cudnn_sweep.analysis.storing.store import Store

UNDECIDED, NO_DIFFERENCE = "undecided", "no difference"
DOES_NOT_FIT, FAILS = "does not fit", "fails"

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


class Advice(AnswerRow):
    """One cell and contrast, for one kind of start; of each cell the start that was asked for comes first."""

    question = "advice"

    @property
    def is_for_candidate(self) -> bool:
        """Of any setting but benchmark, whose values are called on and off."""
        return bool(self.advice == self.contrast.rpartition(" → ")[2])


advices = Advice.of


class KernelChange(AnswerRow):
    """A convolution kernel (`operation`, `kernel`) of which a step has other launches with benchmark off (`baseline`)
    than on (`candidate`).
    """


def kernel_changes(database: Database, sweep_id: str | None) -> list[KernelChange]:
    """Between a process of each config, of the first block in which both told their kernels: of one sweep or the
    newest.
    """
    rows = database.query(KERNELS, {"sweep_id": sweep_id}).to_pylist()
    return [KernelChange(**row) for row in rows]


class RankPrediction(AnswerRow):
    """What so many ranks would do under one config, predicted from single processes."""

    question = "choice_stability"


rank_predictions = RankPrediction.of


class StoredCell(AnswerRow):
    """A cell that a sweep measured, by what its id cannot be reckoned without."""


def stored_cells(store: Store, suites: Sequence[str], workload: str) -> list[StoredCell]:
    """Of a workload, in sweeps of these suites; the newest first."""
    with open_database(store) as database:
        values: dict[str, Value] = {"workload": workload, "suites": ",".join(suites)}
        return [StoredCell(**row) for row in database.query(STORED, values).to_pylist()]


class Alternative(AnswerRow):
    """What another layout or precision does to the time per step, both as `contrast` has them."""

    question = "axis_effect"


def alternatives(store: Store, sweep_id: str, precision: str) -> list[Alternative]:
    """Of a sweep of one step in several layouts and precisions; what is measured, and no more."""
    layouts = Alternative.of(store, sweep_id, axis="layout", baseline="contiguous")
    precisions = Alternative.of(store, sweep_id, baseline=precision)
    return sorted([*layouts, *precisions], key=lambda each: each.ratio or math.inf)


class Freeze(AnswerRow):
    """A kept choice beside off and on: one sweep, cell and errata."""

    question = "freezes"


freezes = Freeze.of
