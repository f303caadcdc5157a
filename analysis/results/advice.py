"""Rows of the questions `advice` (whether a job gains) and `freezes` (what a kept choice gains), and texts about them.

The SQL of these questions does the arithmetic and explains the columns.
"""

from collections.abc import Iterator, Sequence

from cudnn_sweep.analysis.engine.database import Database, open_database
from cudnn_sweep.analysis.engine.queries import Value
from cudnn_sweep.analysis.results.answers import AnswerRow
from cudnn_sweep.analysis.results.verdicts import OfContrast
from cudnn_sweep.analysis.store.store import Store
from cudnn_sweep.analysis.words import (
    counted,
    percent,
    some,
    two_digits,
)
from cudnn_sweep.workloads.records.row import BUNDLED

UNDECIDED, NO_DIFFERENCE = "undecided", "no difference"
DOES_NOT_FIT, FAILS = "does not fit", "fails"
KERNELS_SHOWN = 3
TENSORS_SHOWN = 3
NAME_SHOWN = 46  # characters of a kernel's name
STARTS = {"container": "in a new container", "warm": "on a warm machine"}
HEADLINES = {
    "on": "Turn benchmark on.",
    "off": "Leave benchmark off.",
    NO_DIFFERENCE: "It makes no difference: leave benchmark as it is.",
    DOES_NOT_FIT: "Leave benchmark off: with it the memory does not suffice.",
    FAILS: "Leave benchmark off: with it processes fail.",
    UNDECIDED: "Undecided: leave benchmark off until more is measured.",
}
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


class Advice(OfContrast):
    """A cell, contrast and start (`container` or `warm`); a cell's requested start comes first."""

    question = "advice"

    @property
    def is_for_candidate(self) -> bool:
        """Return whether the advice is to use the candidate's value, such as on for benchmark."""
        return bool(self.advice == self.contrast.rpartition(" → ")[2])


class KernelChange(AnswerRow):
    """A kernel (`operation`, `kernel`) that a step launches more or less often with the candidate."""


def kernel_changes(
    database: Database,
    sweep_id: str | None,
    candidate: str = "benchmark",
    kind: str | None = "convolution",
) -> list[KernelChange]:
    """Compare kernels of baseline and candidate in the first block with both, in one sweep or the newest.

    `candidate`: SQL that is true for the candidate's records; `kind`: the kind of kernels to compare, None for all.
    """
    values: dict[str, Value] = {"sweep_id": sweep_id, "kind": kind}
    rows = database.query(KERNELS.format(candidate=candidate), values).to_pylist()
    return [KernelChange(**row) for row in rows]


class RankPrediction(AnswerRow):
    """A cell and config: what a job of several ranks would do, predicted from single processes."""

    question = "choice_stability"


class StoredCell(AnswerRow):
    """A cell that a sweep measured, with its cell_id, direction, input shape and GPU."""


def stored_cells(store: Store, suite: str, workload: str) -> list[StoredCell]:
    """Return the cells of a workload that sweeps of the suite measured, newest sweep first."""
    with open_database(store) as database:
        values: dict[str, Value] = {"workload": workload.removeprefix(BUNDLED), "suite": suite}
        rows = database.query(STORED, values).to_pylist()
    return [StoredCell(**row) for row in rows]


class Freeze(AnswerRow):
    """A kept choice (benchmark off, with errata) of a cell in a sweep, beside benchmark off and on."""

    question = "freezes"


# --- Words ---


def advice_headline(advice: Advice) -> str:
    if advice.advice == UNDECIDED:
        needs = minutes_needed(advice.minutes_needed)
        return f"{HEADLINES[UNDECIDED]} {needs}" if needs else HEADLINES[UNDECIDED]
    if advice.advice == DOES_NOT_FIT and advice.baseline_failed and not advice.blocks:
        return "It does not fit, with benchmark on or off."
    if advice.advice == FAILS and advice.setting == "on":
        return "Turn benchmark on: without it processes fail."
    return HEADLINES[advice.advice]


def advice_facts(advice: Advice, kernels: Sequence[KernelChange]) -> Iterator[tuple[str, str]]:
    """Yield facts, each a label and a text; an empty label continues the fact before."""
    waits = "; the loop is CPU-bound" if advice.launch_bound else ""
    yield "Because", f"{advice.why}{waits}"
    if advice.sure is not None and advice.ratio is not None:
        faster = "on" if advice.ratio < 1 else "off"
        text = (
            f"{percent(min(advice.sure, 0.999), 1)} that {faster} is faster, from {counted(advice.blocks, 'block')} "
            f"with one process each for on and off, {advice.start_blocks} of them {STARTS[advice.start]}"
        )
        yield "How sure", text
    if tensors := list(advice.candidate_varies_in or ()):
        yield "Results", f"with on, processes differ in {some(tensors, TENSORS_SHOWN)}"
    yield from _why(kernels)


def minutes_needed(needed: float | None) -> str:
    if needed is None:
        return ""
    return f"It needs about {two_digits(max(needed, 0.1))} more minutes (--minutes)."


def _why(kernels: Sequence[KernelChange]) -> Iterator[tuple[str, str]]:
    for place, kernel in enumerate(kernels[:KERNELS_SHOWN]):
        name = kernel.kernel[:NAME_SHOWN] + "..." * (len(kernel.kernel) > NAME_SHOWN)
        times = f"{kernel.baseline} times per step with off, {kernel.candidate} with on"
        yield "Kernels" if place == 0 else "", f"{kernel.operation}: {name} {times}"
    if len(kernels) > KERNELS_SHOWN:
        yield "", f"further kernels that differ: {len(kernels) - KERNELS_SHOWN}"
