"""A kept choice beside off and on, in words: a small table, and facts."""

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cudnn_sweep.analysis.answering.advice import UNDECIDED, Advice, Freeze
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

WAYS = ("off", "on", "frozen")
LEAST = 0.005  # of the time of a step: less is not worth a file
EQUAL = 0.01  # a smaller difference of two steps is none
FEW = 2.0  # steps, the start of one of which is no start of a job
NAMED = 4  # operations


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """A kept choice beside off and on."""

    file: str
    advice: Advice
    """Of off with the file's errata against off alone, for the start that was asked for."""
    measured: Freeze
    cannot: Sequence[str] = ()
    """Operations that cannot have their fastest plan."""
    operations: int | None = None
    """How many there are; None where no search was made now."""

    @property
    def is_no_faster(self) -> bool:
        """Than off, as far as is decided, or nearly so."""
        row = self.advice
        decided = row.advice != UNDECIDED and not row.is_for_candidate
        return decided or row.step_ratio is None or row.step_ratio > 1 - LEAST

    @property
    def lines(self) -> list[str]:
        """What to paste: into a shell, and into the program."""
        return [
            f"export CUDNN_ERRATA_JSON_FILE={shlex.quote(os.path.abspath(self.file))}",
            "torch.backends.cudnn.benchmark = False",
        ]


def three_ways(kept: Kept, on: Advice | None) -> list[list[str]]:
    """A table with its head. `on`: the advice about off and on."""
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
    best = _best_from(kept, on)
    return [["", *WAYS], *told, ["best", *(best[way] for way in WAYS)]]


def _seconds(ms: float | None) -> str:
    return "" if ms is None else clock(ms / 1000)


def _best_from(kept: Kept, on: Advice | None) -> dict[str, str]:
    """From how many steps on each is the fastest, start and all."""
    frozen, never = kept.advice, dict.fromkeys(WAYS, "never")
    off_ms = frozen.baseline_ms
    if on is None or off_ms is None:
        return dict.fromkeys(WAYS, "")
    lines = {"off": (0.0, off_ms)}
    for way, row in (("on", on), ("frozen", frozen)):
        if row.step_ratio is None or row.extra_start_s is None:
            return dict.fromkeys(WAYS, "")
        equal = next(
            (ms for _, ms in lines.values() if abs(row.step_ratio * off_ms / ms - 1) < EQUAL), None
        )
        lines[way] = (1000 * row.extra_start_s, equal or row.step_ratio * off_ms)
    present = min(lines, key=lambda way: (lines[way][0], lines[way][1]))
    steps, told = 0.0, {present: "from the first step"}
    while True:
        start, ms = lines[present]
        crossings = {
            way: (other - start) / (ms - other_ms)
            for way, (other, other_ms) in lines.items()
            if other_ms < ms and (other - start) / (ms - other_ms) >= steps
        }
        if not crossings:
            return never | told
        present = min(crossings, key=lambda way: crossings[way])
        steps = crossings[present]
        if steps < FEW:
            told = {present: "from the first step"}
        else:
            told[present] = f"from {two_digits(steps)} steps"


def kept_facts(kept: Kept) -> Iterator[tuple[str, str]]:
    measured, row = kept.measured, kept.advice
    ends = interval(row.step_ratio_low, row.step_ratio_high)
    rules = counted(measured.rules, "rule")
    text = f"{rules}, by {counted(row.blocks, 'block')}: a step takes {ratio(row.step_ratio)} of the time with off{ends}"
    if measured.kept is not None:
        text += f", which is {percent(measured.kept)} of what on gains"
    yield "Frozen", text
    if kept.cannot:
        lost = (
            f"{some(list(kept.cannot), NAMED)} ({len(kept.cannot)} of {kept.operations} operations"
        )
        why = "in the order of their first calls): another operation needs what it must not take"
        yield "Not kept", f"the fastest plan of {lost}, {why}"
    file = os.path.basename(kept.file)
    yield "Elsewhere", f"Dockerfile: COPY {file} / and ENV CUDNN_ERRATA_JSON_FILE=/{file}"
    yield "", "torchrun and srun pass the variable on; it must be set before the first convolution"
    yield (
        "Holds for",
        f"{row.gpu}, and this version of cuDNN alone: under another one it does nothing",
    )


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if place == 0 else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
