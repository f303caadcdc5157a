"""Writes advice as text for a terminal of 80 columns."""

import math
import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar, Self, TypeAlias

from cudnn_sweep.analysis.answers.answer import Answer, Section, State
from cudnn_sweep.analysis.results.advice import (
    DOES_NOT_FIT,
    FAILS,
    NO_DIFFERENCE,
    UNDECIDED,
    Advice,
    ConfigTrials,
    Freeze,
    KernelChange,
    RankPrediction,
)
from cudnn_sweep.analysis.results.answers import AnswerRow
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
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions
from cudnn_sweep.workloads.errors import TRY
from cudnn_sweep.workloads.warnings import ADVICE, OF_THE_CODE, WarningName

FROZEN = "frozen"
SMALLER = "a smaller batch, a smaller size, or --precision amp_bf16"
REMEDIES = {
    "out_of_memory": SMALLER,
    "killed": SMALLER,
    "timeout": "a smaller input, or more time with `sweep advise --minutes`",
}
"""Remedies for a failed trial, by the status of the trial."""
Figure: TypeAlias = tuple[str, str, Callable[[float], str]]
"""A line of a table: its label, its column, and a function that formats a value."""
OF_JOB: tuple[Figure, ...] = (
    ("time with {off}", "baseline_s", clock),
    ("time with {on}", "candidate_s", clock),
    ("{on} saves", "saved_s", clock),
    ("{on} divided by {off}", "ratio", ratio),
    ("a step with {off}", "baseline_ms", milliseconds),
    ("a step with {on}", "candidate_ms", milliseconds),
    ("{on} divided by {off}", "step_ratio", ratio),
    ("{on} starts later by", "extra_start_s", clock),
    ("steps to break even", "break_even_steps", two_digits),
    ("extra time at a new size, {on}", "new_shape_ms", milliseconds),
    ("warm cache saves, {off}", "baseline_cache_saves_s", clock),
    ("warm cache saves, {on}", "candidate_cache_saves_s", clock),
    ("different results, {off}", "baseline_results", number),
    ("different results, {on}", "candidate_results", number),
    ("largest memory, {off}", "baseline_first_bytes", size),
    ("largest memory, {on}", "candidate_first_bytes", size),
    ("memory of later steps, {off}", "baseline_steady_reserved_bytes", size),
    ("memory of later steps, {on}", "candidate_steady_reserved_bytes", size),
)
OF_WAYS: tuple[Figure, ...] = (
    ("a step", "ms", milliseconds),
    ("first calls, new container", "first_ms", lambda ms: clock(ms / 1000)),
    ("first calls, warm", "first_warm_ms", lambda ms: clock(ms / 1000)),
    ("largest memory", "peak_bytes", size),
    ("different results", "results", number),
    ("different kernel choices", "choices", number),
    ("error against float64", "l2_error", number),
)
OF_RANKS: tuple[Figure, ...] = (
    ("all ranks choose the same kernels", "rank_agreement", percent),
    ("all ranks compute the same bits", "rank_bits_agreement", percent),
    ("time lost to the slowest rank", "straggler_cost", lambda share: percent(share, 1)),
    ("steps that wait for a search", "search_stalls", lambda steps: number(round(steps))),
    ("measured: the same kernels", "seen_rank_agreement", percent),
    ("measured: the same bits", "seen_bits_agreement", percent),
    ("measured: time lost to the slowest rank", "seen_straggler_cost", lambda x: percent(x, 1)),
    ("measured: NCCL time per step", "seen_wait_ms", milliseconds),
    ("number of trials used", "processes", number),
)
WAYS = ("off", "on", "frozen")
NAMED = 4  # operations
KERNELS_SHOWN = 3
TENSORS_SHOWN = 3
NAME_SHOWN = 46  # characters of a kernel's name
STARTS = {"container": "in a new container", "warm": "on a warm machine"}
HEADLINES = {
    "on": "Turn benchmark on.",
    "off": "Leave benchmark off.",
    NO_DIFFERENCE: "It makes no difference. Leave benchmark as it is.",
    DOES_NOT_FIT: "Leave benchmark off. The memory does not suffice with benchmark on.",
    FAILS: "Leave benchmark off. Processes fail with benchmark on.",
    UNDECIDED: "Undecided: leave benchmark off until more is measured.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """A file that `sweep freeze` wrote, and the measured effect of this file."""

    file: str
    advice: Advice
    """Advice on whether to use the file with benchmark off."""
    measured: Freeze
    cannot: Sequence[str] = ()
    """Operations whose fastest cuDNN plan cannot be kept."""
    operations: int | None = None
    """Number of operations of the step. None if the command made no search."""

    @property
    def gains(self) -> bool:
        """Whether a step is surely faster with the file than with benchmark off."""
        allows = self.advice.is_for_candidate or self.advice.advice in (UNDECIDED, NO_DIFFERENCE)
        return allows and (self.measured.frozen_ratio_high or 1) < 1

    @property
    def step(self) -> str:
        row = self.measured
        ends = interval(row.frozen_ratio_low, row.frozen_ratio_high)
        taken = f"{ratio(row.frozen_ratio)} of the time with benchmark off{ends}"
        return f"by {counted(row.blocks, 'block')}: a step takes {taken}"

    @property
    def lines(self) -> list[str]:
        return [  # into a shell, into the program
            f"export CUDNN_ERRATA_JSON_FILE={shlex.quote(os.path.abspath(self.file))}",
            "torch.backends.cudnn.benchmark = False",
        ]


@dataclass(frozen=True, kw_only=True)
class Answered:
    """Results of measurements that answer a question about a job."""

    options: AdviseOptions
    sweep_id: str
    advice: Advice | None = None
    """Advice for the value of `--state`. None if no configs were compared."""
    other: Advice | None = None
    """Advice for the other value of `--state`."""
    kernels: Sequence[KernelChange] = ()
    ranks: Sequence[RankPrediction] = ()
    kept: Kept | None = None
    times_ms: Sequence[float] = ()
    failures: Sequence[tuple[str, str]] = ()
    """Status and message of each trial that failed."""
    warnings: Sequence[WarningName] = ()
    ways: ClassVar[tuple[str, str]] = ("off", "on")
    long_ways: ClassVar[tuple[str, str]] = ("benchmark off", "benchmark on")

    @classmethod
    def of(
        cls, options: AdviseOptions, sweep_id: str, configs: Sequence[ConfigTrials], **found: Any
    ) -> Self:
        """Make an answer from the trials of `configs`. `found` has the values of other fields."""
        failures = [failure for row in configs for failure in row.failures or ()]
        warnings = {name for row in configs for name in row.warnings or ()}
        return cls(
            options=options,
            sweep_id=sweep_id,
            times_ms=[ms for row in configs for ms in row.times_ms or ()],
            failures=[(failure["status"], failure["message"]) for failure in failures],
            warnings=[name for name in OF_THE_CODE if name in warnings],
            **found,
        )

    @property
    def fails(self) -> bool:
        return not self.times_ms

    @property
    def said(self) -> str:
        if self.advice is None:
            return FAILS if self.fails else UNDECIDED
        return FROZEN if self.keeps else self.advice.advice

    @property
    def keeps(self) -> bool:
        """Whether the file saves time, and at least as much as benchmark mode."""
        if self.kept is None or self.advice is None:
            return False
        frozen, on = self.kept.advice, self.advice
        most = 1.0 if on.advice in (UNDECIDED, NO_DIFFERENCE) else on.ratio or math.inf
        return frozen.is_for_candidate and frozen.ratio is not None and frozen.ratio <= most

    @property
    def setting(self) -> str | dict[str, str]:
        if self.keeps:
            return FROZEN
        return "off" if self.advice is None else self.advice.setting

    @property
    def lines(self) -> list[str]:
        if self.kept and self.keeps:
            return self.kept.lines
        return ["torch.backends.cudnn.benchmark = True"] if self.setting == "on" else []

    @property
    def state(self) -> State:
        """`does not run` if the model fails, `cannot tell` if nothing is decided, else `fine`."""
        advice = self.advice
        if self.fails:
            return "does not run"
        if self.said == UNDECIDED:
            return "cannot tell"
        if advice is not None and advice.advice in (DOES_NOT_FIT, FAILS) and not advice.blocks:
            return "fine" if advice.baseline_failed < advice.candidate_failed else "does not run"
        return "fine"

    @property
    def headline(self) -> str:
        kept, advice = self.kept, self.advice
        if advice is None:
            return "Undecided: this step was not measured on a GPU."
        file = os.path.basename(kept.file) if kept else ""
        if self.keeps:
            return f"Leave benchmark off and use {file}, which keeps the plans that a search chose."
        if advice.advice == UNDECIDED:
            text = HEADLINES[UNDECIDED]
            if kept and kept.advice.advice == UNDECIDED:
                advice = kept.advice
                so_far = f"{ratio(advice.step_ratio)} of the time of a step with benchmark off"
                text = f"Undecided. So far, a step with {file} takes {so_far}."
            return f"{text} {minutes_needed(advice.minutes_needed)}".rstrip()
        if advice.advice == DOES_NOT_FIT and advice.baseline_failed and not advice.blocks:
            return "The job needs too much memory, with benchmark on or off."
        if advice.advice == FAILS and advice.setting == "on":
            return "Turn benchmark on. Processes fail with benchmark off."
        return HEADLINES[advice.advice]

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield facts as labels and texts. An empty label continues the previous fact."""
        if self.advice is None or self.advice.no_effect_reason == "no_cuda":
            ends = f"{milliseconds(min(self.times_ms))} to {milliseconds(max(self.times_ms))}"
            here = f"on this CPU ({len(self.times_ms)} processes, {ends})"
            yield "A step", f"{milliseconds(median(self.times_ms))} {here}"
            yield "Then", "measure on the GPU of your job, because benchmark has no effect on a CPU"
            return
        if self.kept is not None:
            yield from kept_facts(self.kept)
        yield from self.facts_of(self.advice)
        for place, kernel in enumerate(self.kernels[:KERNELS_SHOWN]):
            name = kernel.kernel[:NAME_SHOWN] + "..." * (len(kernel.kernel) > NAME_SHOWN)
            name += f" runs {kernel.baseline} times per step with benchmark off"
            times = f"{kernel.candidate} times with benchmark on"
            yield "" if place else "Kernels", f"{kernel.operation}: {name}, {times}"
        if more := self.kernels[KERNELS_SHOWN:]:
            yield "", f"further kernels that differ: {len(more)}"

    def facts_of(self, advice: Advice) -> Iterator[tuple[str, str]]:
        on, start = self.long_ways[1], STARTS[advice.start]
        yield "Because", f"{advice.why}{'; the loop is CPU-bound' * bool(advice.launch_bound)}"
        if advice.sure is not None and advice.ratio is not None:
            faster = f"{self.long_ways[advice.ratio < 1]} is faster"
            faster = f"{percent(min(advice.sure, 0.999), 1)} sure that {faster}"
            blocks = f"{counted(advice.blocks, 'block')} with one process of each config"
            yield "How sure", f"{faster}, from {blocks}, {advice.start_blocks} of them {start}"
        if tensors := list(advice.candidate_varies_in or ()):
            yield "Results", f"processes with {on} differ in {some(tensors, TENSORS_SHOWN)}"

    def why_it_fails(self) -> Iterator[tuple[str, str]]:
        failures = Counter(self.failures) or Counter([("", "nothing was recorded")])
        (((status, message), _),) = failures.most_common(1)
        why, _, found = message.partition(TRY)
        yield "Why", why
        if remedy := found or REMEDIES.get(status):
            yield "Try", remedy

    def tables(self) -> Iterator[Section]:
        advice = self.advice
        if self.kept:
            yield three_ways(self.kept)
        if advice and advice.ratio is not None and advice.no_effect_reason != "no_cuda":
            off, on = self.ways
            figures = [(name.format(off=off, on=on), column, text) for name, column, text in OF_JOB]
            both = [row for row in (advice, self.other) if row and row.ratio is not None]
            starts = {STARTS[row.start]: row for row in both}
            yield _table(f"{advice.job_steps:,} steps", figures, starts)
        if self.ranks:
            rows = {
                FROZEN if row.errata is not None else WAYS[row.benchmark]: row for row in self.ranks
            }
            yield _table("predicted for ranks", OF_RANKS, rows)

    def commands(self) -> Iterator[tuple[str, str]]:
        options = self.options
        if self.kernels and options.input and ":" in options.workload:
            trace = [options.program, "trace", options.workload, "--input", options.input[0]]
            yield "Which layers", shlex.join(trace)
        if self.advice is None:
            yield "On a machine with a GPU", options.command()
        else:
            yield "Without measuring again", options.again

    def values(self) -> dict[str, object]:
        return {
            "sweep_id": self.sweep_id,
            "advice": self.said,
            "setting": self.setting,
            "lines": self.lines,
            "asked": self.advice,
            "other_start": self.other,
            "frozen": self.kept,
            "kernels": self.kernels,
            "ranks": self.ranks,
            "step_times_ms": self.times_ms,
            "messages": sorted({message for _, message in self.failures}),
            "warnings": self.warnings,
            "again": self.options.again,
        }


def answer_of(answered: Answered) -> Answer:
    options, fails = answered.options, answered.fails
    failures = [options.program, "query", "failures", *options.where()]
    next_query = shlex.join([*failures, "--sweep-id", answered.sweep_id])
    warned = [("Warning", f"{name}: {ADVICE[name]}") for name in answered.warnings]
    facts = answered.why_it_fails() if fails else [*answered.facts(), *warned]
    return Answer(
        kind=options.kind,
        subject=options.workload,
        state=answered.state,
        headline=f"{options.workload} does not run here." if fails else answered.headline,
        paste=answered.lines,
        sections=[Section(rows=list(facts)), *answered.tables()],
        commands=[("Next", next_query)] if fails else list(answered.commands()),
        values=answered.values(),
    )


def minutes_needed(needed: float | None) -> str:
    if needed is None:
        return ""
    return f"A decision takes about {two_digits(max(needed, 0.1))} more minutes (--minutes)."


def three_ways(kept: Kept) -> Section:
    columns = [column for _, column, _ in OF_WAYS]
    rows = {
        way: AnswerRow(**{column: getattr(kept.measured, f"{way}_{column}") for column in columns})
        for way in WAYS
    }
    return _table("", OF_WAYS, rows)


def _table(label: str, figures: Sequence[Figure], rows: Mapping[str, AnswerRow]) -> Section:
    def lines() -> Iterator[Sequence[str]]:
        for name, column, text in figures:
            values = [getattr(row, column) for row in rows.values()]
            yield name, *("" if value is None else text(value) for value in values)
            low, high = (f"{column.removesuffix('_steps')}_{end}" for end in ("low", "high"))
            ends = ((getattr(row, low, None), getattr(row, high, None)) for row in rows.values())
            yield "  95%", *(interval(*both, text).strip(" ()") for both in ends)

    return Section(head=[label, *rows], rows=[line for line in lines() if any(line[1:])])


def kept_facts(kept: Kept) -> Iterator[tuple[str, str]]:
    measured, row = kept.measured, kept.advice
    text = f"{counted(measured.rules, 'rule')}; {kept.step}"
    if measured.kept is not None:
        ends = interval(measured.kept_low, measured.kept_high, percent)
        text += f"; the file keeps {percent(measured.kept)}{ends} of the gain of benchmark mode"
        if measured.kept_by == "device":
            text += " in device time, because the loop is CPU-bound"
    yield "Frozen", text
    if kept.cannot:
        of = f"{len(kept.cannot)} of {kept.operations} operations"
        order = "in the order of their first calls"
        why = "another operation needs a plan that would have to be banned"
        yield (
            "Not kept",
            f"the fastest plan of {some(list(kept.cannot), NAMED)} ({of}, {order}), because {why}",
        )
    file = os.path.basename(kept.file)
    yield "Elsewhere", f"Dockerfile lines: `COPY {file} /` and `ENV CUDNN_ERRATA_JSON_FILE=/{file}`"
    yield "", "torchrun and srun pass the variable on; set it before the first convolution"
    alone = "only with this version of cuDNN; the rules have no effect with another version"
    yield "Valid for", f"{row.gpu}, {alone}"
