"""Rows of `advice` and `freezes`, the gain of a job and of a kept choice, and advice in words.

The arithmetic is in their SQL, and so are the columns' meanings.
"""

from collections.abc import Iterator, Sequence

from cudnn_sweep.analysis.engine.database import Database, open_database
from cudnn_sweep.analysis.engine.queries import Value
from cudnn_sweep.analysis.results.answers import AnswerRow
from cudnn_sweep.analysis.store.store import Store
from cudnn_sweep.analysis.words import (
    clock,
    counted,
    interval,
    milliseconds,
    number,
    percent,
    ratio,
    size,
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


class Advice(AnswerRow):
    """One cell and contrast, for one kind of start; the start of the query's `state` comes first."""

    question = "advice"

    @property
    def is_for_candidate(self) -> bool:
        """Return whether the advice is the candidate; benchmark's words are on and off instead."""
        return bool(self.advice == self.contrast.rpartition(" → ")[2])


class KernelChange(AnswerRow):
    """A kernel (`operation`, `kernel`) that a step launches more or less often in the candidate."""


def kernel_changes(
    database: Database,
    sweep_id: str | None,
    candidate: str = "benchmark",
    kind: str | None = "convolution",
) -> list[KernelChange]:
    """Compare the sides' kernels in the first block that has both; of one sweep, or of the newest.

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


def advice_facts(
    advice: Advice, other: Advice | None, kernels: Sequence[KernelChange]
) -> Iterator[tuple[str, str]]:
    """Yield labels and facts; `other` is the row of the other kind of start. An empty label continues the last one."""
    yield "Because", advice.why
    for row in (advice, other):
        if row is not None and row.ratio is not None:
            yield "Your job" if row is advice else "", _whole(row)
    yield from _details(advice, other)
    yield from _memory(advice)
    yield from _results(advice)
    yield from _why(kernels)


def minutes_needed(needed: float | None) -> str:
    if needed is None:
        return ""
    return f"It needs about {two_digits(max(needed, 0.1))} more minutes (--minutes)."


def _whole(row: Advice) -> str:
    where = STARTS[row.start]
    if row.baseline_s is None or row.candidate_s is None or row.saved_s is None:
        return where
    verb, sign = ("saves", 1) if row.saved_s >= 0 else ("costs", -1)
    text = (
        f"{row.job_steps:,} steps {where}: {clock(row.candidate_s)} on, {clock(row.baseline_s)} off; on "
        f"{verb} {clock(abs(row.saved_s))} on average"
    )
    if row.saved_s_low is None or row.saved_s_high is None or row.ratio is None:
        return text
    low, high = sorted((sign * row.saved_s_low, sign * row.saved_s_high))
    return (
        f"{text} (95% of runs: {clock(low)} to {clock(high)}; ratio {ratio(row.ratio)}, "
        f"{ratio(row.ratio_low)} to {ratio(row.ratio_high)})"
    )


def _details(advice: Advice, other: Advice | None) -> Iterator[tuple[str, str]]:
    if advice.sure is not None and advice.ratio is not None:
        faster = "on" if advice.ratio < 1 else "off"
        text = (
            f"{percent(min(advice.sure, 0.999), 1)} that {faster} is faster, by {counted(advice.blocks, 'block')} of a process "
            f"each way, {advice.start_blocks} of them {STARTS[advice.start]}"
        )
        yield "How sure", text
    if advice.step_ratio is not None and advice.baseline_ms and advice.candidate_ms:
        waits = "; the loop is CPU-bound" if advice.launch_bound else ""
        sides = f"{milliseconds(advice.baseline_ms)} off, {milliseconds(advice.candidate_ms)} on"
        ends = interval(advice.step_ratio_low, advice.step_ratio_high)
        yield "A step", f"{sides}: {ratio(advice.step_ratio)}{ends}{waits}"
    starts = [row for row in (advice, other) if row is not None and row.extra_start_s is not None]
    if starts:
        yield "A start", "; ".join(map(_start, starts))
    breaks = [row for row in starts if row.break_even_steps is not None]
    if breaks:
        yield "Break-even", "; ".join(map(_break_even, breaks))
    if advice.new_shape_ms is not None and (advice.first_calls or 0) > 1:
        met = f"{number(advice.first_calls)} of them in this job"
        more = milliseconds(advice.new_shape_ms)
        yield "New sizes", f"each further one costs {more} more with on; {met}"
    on, off = advice.candidate_cache_saves_s, advice.baseline_cache_saves_s
    if on is not None and off is not None:
        saved = f"saves {clock(on)} a start with on, {clock(off)} with off"
        yield "Cache", f"CUDA_CACHE_PATH kept on a volume {saved}"


def _start(row: Advice) -> str:
    ends = interval(row.extra_start_s_low, row.extra_start_s_high, clock)
    return f"on takes {clock(row.extra_start_s)} longer {STARTS[row.start]}{ends}"


def _break_even(row: Advice) -> str:
    ends = interval(row.break_even_low, row.break_even_high, two_digits)
    return f"{two_digits(row.break_even_steps)} steps{ends} {STARTS[row.start]}"


def _memory(advice: Advice) -> Iterator[tuple[str, str]]:
    sides = [
        (advice.baseline_first_bytes, advice.candidate_first_bytes, "at the first steps"),
        (advice.baseline_steady_reserved_bytes, advice.candidate_steady_reserved_bytes, "later"),
    ]
    parts = [f"{size(on)} on, {size(off)} off {when}" for off, on, when in sides if on and off]
    if parts:
        yield "Memory", "; ".join(parts)


def _results(advice: Advice) -> Iterator[tuple[str, str]]:
    if not advice.candidate_results or not advice.baseline_results:
        return
    if advice.candidate_results == advice.baseline_results == 1:
        yield "Results", "every process computes the same bits, with on and with off"
        return
    text = (
        f"{advice.baseline_results} different among the processes with off, {advice.candidate_results} "
        "with on, from equal weights and inputs"
    )
    tensors = list(advice.candidate_varies_in or ())
    if tensors:
        text += f"; with on they differ in {some(tensors, TENSORS_SHOWN)}"
    yield "Results", text


def _why(kernels: Sequence[KernelChange]) -> Iterator[tuple[str, str]]:
    for place, kernel in enumerate(kernels[:KERNELS_SHOWN]):
        name = kernel.kernel[:NAME_SHOWN] + "..." * (len(kernel.kernel) > NAME_SHOWN)
        times = f"{kernel.baseline} times a step off, {kernel.candidate} times on"
        yield "Kernels" if place == 0 else "", f"{kernel.operation}: {name} {times}"
    if len(kernels) > KERNELS_SHOWN:
        yield "", f"and {len(kernels) - KERNELS_SHOWN} more that are not the same"
