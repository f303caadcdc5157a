"""Advice in words, for a terminal of 80 columns."""

import math
import os
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from rich.table import Table

from cudnn_sweep.analysis.results.advice import (
    FAILS,
    NO_DIFFERENCE,
    UNDECIDED,
    Advice,
    Freeze,
    KernelChange,
    RankPrediction,
    advice_facts,
    advice_headline,
    minutes_needed,
)
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
)
from cudnn_sweep.orchestrator.terminal.drawing import table_text
from cudnn_sweep.orchestrator.terminal.say import plain_table
from cudnn_sweep.workloads.errors import TRY
from cudnn_sweep.workloads.warnings import ADVICE, WarningName

WIDTH = 80
LABEL = 12
ON_THE_GPU = "measure on your job's GPU: only a measurement there shows what benchmark does"
FROZEN = "frozen"
SMALLER = "a smaller batch, a smaller size, or --precision amp_bf16"
REMEDIES = {
    "out_of_memory": SMALLER,
    "killed": SMALLER,
    "timeout": "a smaller input, or more time: `sweep advise --minutes`",
}
"""What to try next, by a failed trial's status; its message may know more."""
WAYS = ("off", "on", "frozen")
NAMED = 4  # operations


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """A choice of kernels kept in an errata file, with its time against off alone."""

    file: str
    advice: Advice
    """Advice on off with the file's errata against off alone, for the requested start."""
    measured: Freeze
    cannot: Sequence[str] = ()
    """Operations that cannot have their fastest plan."""
    operations: int | None = None
    """Number of all operations; None if this command made no search."""

    @property
    def gains(self) -> bool:
        """Whether the interval shows a faster step than off, and the job's decision allows it."""
        decision = self.advice.advice
        is_faster = (self.measured.frozen_ratio_high or 1) < 1
        return is_faster and (
            self.advice.is_for_candidate or decision in (UNDECIDED, NO_DIFFERENCE)
        )

    @property
    def step(self) -> str:
        """Text on a step's time with the kept choice, and the number of blocks."""
        row = self.measured
        ends = interval(row.frozen_ratio_low, row.frozen_ratio_high)
        taken = f"{ratio(row.frozen_ratio)} of the time with off{ends}"
        return f"by {counted(row.blocks, 'block')}: a step takes {taken}"

    @property
    def lines(self) -> list[str]:
        """Return the lines to paste: into a shell, and into the program."""
        return [
            f"export CUDNN_ERRATA_JSON_FILE={shlex.quote(os.path.abspath(self.file))}",
            "torch.backends.cudnn.benchmark = False",
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """The answer of a store about a job, with the job's names."""

    sweep_id: str
    workload: str
    advice: Advice | None = None
    """For the requested start; None without trials on a GPU, or if no trial is complete."""
    other: Advice | None = None
    """For the other start."""
    kernels: Sequence[KernelChange] = ()
    ranks: Sequence[RankPrediction] = ()
    """Predictions for off, on and frozen, if a number of ranks was requested."""
    kept: Kept | None = None
    """None: no kept choice was compared."""
    times_ms: Sequence[float] = ()
    """Time of a step in each process."""
    failures: Sequence[tuple[str, str]] = ()
    """Status and message of each trial that failed."""
    warnings: Sequence[WarningName] = ()
    """What was wrong with the model or its inputs."""
    program: str
    command: str
    """Command that asks the same again."""
    where: Sequence[str]
    input: str | None

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
        """Return whether the kept choice is best: it saves time, and at least as much as on does."""
        if self.kept is None or self.advice is None:
            return False
        frozen, on = self.kept.advice, self.advice
        on_ratio = 1.0 if on.advice in (UNDECIDED, NO_DIFFERENCE) else on.ratio
        return (
            frozen.is_for_candidate
            and frozen.ratio is not None
            and frozen.ratio <= (on_ratio or math.inf)
        )

    @property
    def setting(self) -> str:
        if self.keeps:
            return FROZEN
        return "off" if self.advice is None else self.advice.setting

    @property
    def again(self) -> str:
        """Return the command that answers once more without measuring."""
        return f"{self.command} --from-store"

    @property
    def lines(self) -> list[str]:
        if self.keeps and self.kept is not None:
            return self.kept.lines
        return ["torch.backends.cudnn.benchmark = True"] if self.setting == "on" else []


def advice_lines(answered: Answered) -> list[str]:
    return [*answer_lines(answered), "", *_next_lines(answered)]


def answer_lines(answered: Answered) -> list[str]:
    """Return the decision, then its reasons: one fact a paragraph, each with its own label."""
    lines = [_headline(answered), ""]
    if answered.lines:
        lines += [*(f"    {line}" for line in answered.lines), ""]
    if answered.kept is not None:
        lines += [*table_text(three_ways(answered.kept), WIDTH).splitlines(), ""]
    for label, text in _facts(answered):
        lines += textwrap.wrap(
            text,
            WIDTH,
            initial_indent=f"{label:<{LABEL}}",
            subsequent_indent=" " * LABEL,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def _headline(answered: Answered) -> str:
    advice = answered.advice
    if answered.fails:
        return f"{answered.workload} does not run here."
    if advice is None:
        return "Undecided: this step was not measured on a GPU."
    if answered.keeps and answered.kept is not None:
        return f"Keep the choice: leave benchmark off, with {os.path.basename(answered.kept.file)}."
    if answered.kept is not None and advice.advice == answered.kept.advice.advice == UNDECIDED:
        frozen, file = answered.kept.advice, os.path.basename(answered.kept.file)
        so_far = f"Undecided. So far a step takes {ratio(frozen.step_ratio)} of the time with off, with {file}."
        return f"{so_far} {minutes_needed(frozen.minutes_needed)}".rstrip()
    return advice_headline(advice)


def _facts(answered: Answered) -> Iterator[tuple[str, str]]:
    advice, other = answered.advice, answered.other
    if answered.fails:
        failures = Counter(answered.failures) or Counter([("", "nothing was recorded")])
        (((status, message), _),) = failures.most_common(1)
        why, _, found = message.partition(TRY)
        yield "Why", why
        if remedy := found or REMEDIES.get(status):
            yield "Try", remedy
        return
    if advice is None or advice.no_effect_reason == "no_cuda":
        times = answered.times_ms
        ends = f"{milliseconds(min(times))} to {milliseconds(max(times))}"
        here = f"on this CPU ({len(times)} processes, {ends})"
        yield "A step", f"{milliseconds(median(times))} {here}"
        yield "Then", ON_THE_GPU
        yield from _warned(answered)
        return
    if answered.kept is not None:
        yield from kept_facts(answered.kept)
    yield from advice_facts(advice, other, answered.kernels)
    for row in answered.ranks:
        way = FROZEN if row.errata is not None else "on" if row.benchmark else "off"
        yield f"Ranks, {way}", _ranks(row)
    yield from _warned(answered)


def _warned(answered: Answered) -> Iterator[tuple[str, str]]:
    for name in answered.warnings:
        yield "Warning", f"{name}: {ADVICE[name]}"


def _ranks(row: RankPrediction) -> str:
    told = []
    if row.rank_agreement is not None:
        ends = interval(row.rank_agreement_low, row.rank_agreement_high, percent)
        told.append(f"all choose the same kernels: {percent(row.rank_agreement)}{ends}")
    if row.rank_bits_agreement is not None:
        told.append(f"compute the same bits: {percent(row.rank_bits_agreement)}")
    if row.straggler_cost is not None:
        told.append(f"waiting for the slowest costs {percent(row.straggler_cost, 1)} of a step")
    if row.search_stalls is not None:
        told.append(f"{counted(round(row.search_stalls), 'step')} wait for a search")
    return f"{'; '.join(told)} (predicted from {counted(row.processes, 'trial')})"


def _next_lines(answered: Answered) -> Iterator[str]:
    query = [answered.program, "query", "failures", *answered.where]
    if answered.fails:
        yield f"Next: {shlex.join([*query, '--sweep-id', answered.sweep_id])}"
        return
    if answered.kernels and answered.input and ":" in answered.workload:
        trace = [answered.program, "trace", answered.workload, "--input", answered.input]
        yield f"Which layers: {shlex.join(trace)}"
    if answered.advice is None:
        yield f"On a machine with a GPU: {answered.command}"
    else:
        yield f"Without measuring again: {answered.again}"


def three_ways(kept: Kept) -> Table:
    rows = [
        ("a step", "ms", milliseconds),
        ("first calls, new container", "first_ms", _seconds),
        ("first calls, warm", "first_warm_ms", _seconds),
        ("most memory", "peak_bytes", lambda count: "" if count is None else size(count)),
        ("different results", "results", number),
        ("different kernels", "choices", number),
        ("error (float64)", "l2_error", number),
    ]
    told = [
        [name, *map(text, values)]
        for name, column, text in rows
        if any(values := [getattr(kept.measured, f"{way}_{column}") for way in WAYS])
    ]
    return plain_table(["", *WAYS], told, right=WAYS)


def _seconds(ms: float | None) -> str:
    return "" if ms is None else clock(ms / 1000)


def kept_facts(kept: Kept) -> Iterator[tuple[str, str]]:
    measured, row = kept.measured, kept.advice
    text = f"{counted(measured.rules, 'rule')}, {kept.step}"
    if measured.kept is not None:
        ends = interval(measured.kept_low, measured.kept_high, percent)
        text += f"; it keeps {percent(measured.kept)}{ends} of what on gains"
        text += " in device time, as the loop is CPU-bound" if measured.kept_by == "device" else ""
    yield "Frozen", text
    if kept.cannot:
        lost = (
            f"{len(kept.cannot)} of {kept.operations} operations, in the order of their first calls"
        )
        why = "another operation needs a plan that would have to be banned"
        yield "Not kept", f"the fastest plan of {some(list(kept.cannot), NAMED)} ({lost}): {why}"
    file = os.path.basename(kept.file)
    yield "Elsewhere", f"Dockerfile: COPY {file} / and ENV CUDNN_ERRATA_JSON_FILE=/{file}"
    yield "", "torchrun and srun pass the variable on; it must be set before the first convolution"
    yield (
        "Holds for",
        f"{row.gpu}, and this version of cuDNN alone: under another one it does nothing",
    )
