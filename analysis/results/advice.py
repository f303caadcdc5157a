"""Rows of `advice` and `freezes`: the gain of a job, and of a kept choice.

The arithmetic is in their SQL, and so are the columns' meanings.
"""

from cudnn_sweep.analysis.engine.database import Database, open_database
from cudnn_sweep.analysis.engine.queries import Value
from cudnn_sweep.analysis.results.answers import AnswerRow
from cudnn_sweep.analysis.store.store import Store
from cudnn_sweep.workloads.records.row import BUNDLED

UNDECIDED, NO_DIFFERENCE = "undecided", "no difference"
DOES_NOT_FIT, FAILS = "does not fit", "fails"

STORED = """
select
    sweep_id,
    cell_id,
    any_value(direction) as direction,
    any_value(input_shape) as input_shape,
    any_value(model_arguments is not null) as is_model,
    any_value(placement is not null) as by_strides,
    any_value(device) as device,
    any_value(gpu) as gpu
from records
where suite = $suite and workload = $workload
group by sweep_id, cell_id
order by max(started_at) desc, cell_id
"""
KERNELS = """
with blocks as (
    select
        sweep_id,
        block,
        {candidate} as is_candidate,
        kernels
    from records
    where
        ($sweep_id is null or sweep_id glob $sweep_id)
        and status = 'ok' and twin = 0 and errata is null and kernels is not null
    qualify
        count(*) over (partition by sweep_id, block) = 2
        and count(distinct is_candidate) over (partition by sweep_id, block) = 2
),

first_block as (
    select * from blocks
    qualify dense_rank() over (order by sweep_id desc, block) = 1
),

launches as (
    select
        is_candidate,
        unnest(list_filter(kernels, lambda item: $kind is null or item.kind = $kind)) as kernel
    from first_block
)

select
    coalesce(kernel.operation, '?') as operation,
    kernel.name as kernel,
    count(*) filter (where not is_candidate) as baseline,
    count(*) filter (where is_candidate) as candidate
from launches
group by all
having baseline <> candidate
order by abs(candidate - baseline) desc, operation, kernel
"""


class Advice(AnswerRow):
    """One cell and contrast, for one kind of start; the start of the query's `state` comes first."""

    question = "advice"

    @property
    def is_for_candidate(self) -> bool:
        """Return whether the advice is the candidate, of any setting but benchmark: its values are called on and off."""
        return bool(self.advice == self.contrast.rpartition(" → ")[2])


class KernelChange(AnswerRow):
    """A kernel (`operation`, `kernel`) that a step launches more or less often in the candidate."""


def kernel_changes(
    database: Database,
    sweep_id: str | None,
    candidate: str = "benchmark",
    kind: str | None = "convolution",
) -> list[KernelChange]:
    """Compare a process of each side, in the first block with the kernels of both, of one sweep or the newest.

    `candidate`: SQL that is true of the candidate's records; `kind`: kernels of this kind alone.
    """
    values: dict[str, Value] = {"sweep_id": sweep_id, "kind": kind}
    rows = database.query(KERNELS.format(candidate=candidate), values).to_pylist()
    return [KernelChange(**row) for row in rows]


class RankPrediction(AnswerRow):
    """A prediction from single processes for several ranks under one config."""

    question = "choice_stability"


class StoredCell(AnswerRow):
    """A cell that a sweep measured, with the parts that make its id."""


def stored_cells(store: Store, suite: str, workload: str) -> list[StoredCell]:
    """Return the cells of a workload in sweeps of this suite, the newest first."""
    with open_database(store) as database:
        values: dict[str, Value] = {"workload": workload.removeprefix(BUNDLED), "suite": suite}
        rows = database.query(STORED, values).to_pylist()
    return [StoredCell(**row) for row in rows]


class Freeze(AnswerRow):
    """A kept choice beside off and on: one sweep, cell and errata."""

    question = "freezes"
