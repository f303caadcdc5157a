"""What a job gains, and what a kept choice keeps, for whoever displays it: the rows of `advice` and `freezes`.

The arithmetic is in their SQL, and so are the columns' meanings.
"""

from cudnn_sweep.analysis.answering.answers import AnswerRow
from cudnn_sweep.analysis.asking.database import Database, open_database
from cudnn_sweep.analysis.asking.queries import Value
from cudnn_sweep.analysis.storing.store import Store
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
with told as (
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
    select * from told
    qualify dense_rank() over (order by sweep_id desc, block) = 1
),

launches as (
    select
        is_candidate,
        unnest(list_filter(kernels, lambda each: $kind is null or each.kind = $kind)) as kernel
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
    """One cell and contrast, for one kind of start; of each cell the start that was asked for comes first."""

    question = "advice"

    @property
    def is_for_candidate(self) -> bool:
        """Of any setting but benchmark, whose values are called on and off."""
        return bool(self.advice == self.contrast.rpartition(" → ")[2])


class KernelChange(AnswerRow):
    """A kernel (`operation`, `kernel`) of which a step has other launches in the baseline than in the candidate."""


def kernel_changes(
    database: Database,
    sweep_id: str | None,
    candidate: str = "benchmark",
    kind: str | None = "convolution",
) -> list[KernelChange]:
    """Between a process of each side, of the first block in which both told their kernels: of one sweep or the
    newest. `candidate` is what holds of the candidate's records, in SQL; `kind`: of these kernels alone.
    """
    values: dict[str, Value] = {"sweep_id": sweep_id, "kind": kind}
    rows = database.query(KERNELS.format(candidate=candidate), values).to_pylist()
    return [KernelChange(**row) for row in rows]


class RankPrediction(AnswerRow):
    """What so many ranks would do under one config, predicted from single processes."""

    question = "choice_stability"


class StoredCell(AnswerRow):
    """A cell that a sweep measured, by what its id cannot be reckoned without."""


def stored_cells(store: Store, suite: str, workload: str) -> list[StoredCell]:
    """Of a workload, in sweeps of this suite; the newest first."""
    with open_database(store) as database:
        values: dict[str, Value] = {"workload": workload.removeprefix(BUNDLED), "suite": suite}
        rows = database.query(STORED, values).to_pylist()
    return [StoredCell(**row) for row in rows]


class Freeze(AnswerRow):
    """A kept choice beside off and on: one sweep, cell and errata."""

    question = "freezes"
