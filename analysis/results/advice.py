"""Row classes of the questions `advice`, `choice_stability`, `freezes` and of smaller queries."""

from cudnn_sweep.analysis.engine.database import Database, open_database
from cudnn_sweep.analysis.engine.queries import Value
from cudnn_sweep.analysis.results.answers import AnswerRow
from cudnn_sweep.analysis.results.verdicts import OfContrast
from cudnn_sweep.analysis.store.store import Store
from cudnn_sweep.workloads.records.row import BUNDLED

UNDECIDED, NO_DIFFERENCE = "undecided", "no difference"
DOES_NOT_FIT, FAILS = "does not fit", "fails"
STORED = """
select
    sweep_id,
    cell_id,
    direction,
    input_shape,
    model_arguments is not null as is_model,
    placement is not null as by_strides,
    device,
    gpu
from records
where suite = $suite and workload = $workload
group by all
order by max(started_at) desc, cell_id
"""
KERNELS = """
with first_block as (
    select
        sweep_id,
        block,
        list({{is_candidate: {candidate}, kernels: kernels}}) as trials
    from records
    where
        ($sweep_id is null or sweep_id glob $sweep_id)
        and status = 'ok' and twin = 0 and errata is null and kernels is not null
    group by all
    having count(*) = 2 and count(distinct {candidate}) = 2
    order by sweep_id desc, block
    limit 1
)

select
    coalesce(kernel.operation, '?') as operation,
    kernel.name as kernel,
    count(*) filter (where not trial.is_candidate) as baseline,
    count(*) filter (where trial.is_candidate) as candidate
from first_block, unnest(trials) as trials(trial), unnest(trial.kernels) as kernels(kernel)
where $kind is null or kernel.kind = $kind
group by all
having baseline <> candidate
order by abs(candidate - baseline) desc, operation, kernel
"""
TRIALS = """
select
    settings,
    list(steady_wall_ms) filter (where steady_wall_ms is not null) as times_ms,
    median(steady_device_ms) / median(steady_wall_ms) as busy,
    max(relative_l2_error) as l2_error,
    list({'status': status, 'message': message})
        filter (where message is not null and status <> 'raced_out') as failures,
    flatten(list(warnings)) as warnings
from records
group by settings
order by settings
"""


class Advice(OfContrast):
    """Advice for one cell and one state of the compute cache (`start`)."""

    question = "advice"

    @property
    def is_for_candidate(self) -> bool:
        """Whether the advice is the candidate's value, such as `weights`, and not `on` or `off`."""
        return bool(self.advice == self.contrast.rpartition(" → ")[2])


class KernelChange(AnswerRow):
    """A kernel that a step launches a different number of times with the candidate."""


def kernel_changes(
    database: Database,
    sweep_id: str | None,
    candidate: str = "benchmark",
    kind: str | None = "convolution",
) -> list[KernelChange]:
    """Return the kernels that the candidate launches more or less often than the baseline in one
    block of the last sweep that matches the pattern `sweep_id`. `candidate` is an SQL condition on
    the candidate's records. If `kind` is None, all kinds are compared."""
    values: dict[str, Value] = {"sweep_id": sweep_id, "kind": kind}
    rows = database.query(KERNELS.format(candidate=candidate), values).to_pylist()
    return [KernelChange(**row) for row in rows]


class RankPrediction(AnswerRow):
    """Prediction of how a cell and config would run in a job of several ranks."""

    question = "choice_stability"


class StoredCell(AnswerRow):
    """A cell that a sweep measured. Its attributes are the columns of STORED."""


def stored_cells(store: Store, suite: str, workload: str) -> list[StoredCell]:
    """Return a row for each cell and sweep, newest first."""
    with open_database(store) as database:
        values: dict[str, Value] = {"workload": workload.removeprefix(BUNDLED), "suite": suite}
        rows = database.query(STORED, values).to_pylist()
    return [StoredCell(**row) for row in rows]


class ConfigTrials(AnswerRow):
    """The trials of one config. `busy` is the share of a step's time in which the GPU works.
    `l2_error` is the largest relative error against float64."""


def config_trials(store: Store, sweep_id: str) -> list[ConfigTrials]:
    """Return a row for each config. `sweep_id` may be a pattern."""
    with open_database(store, sweep_id) as database:
        return [ConfigTrials(**row) for row in database.query(TRIALS).to_pylist()]


class Freeze(AnswerRow):
    """Comparison of a cell's frozen kernels with benchmark off and with benchmark on."""

    question = "freezes"
