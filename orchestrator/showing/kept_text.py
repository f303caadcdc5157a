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
)

WAYS = ("off", "on", "frozen")
LEAST = 0.005  # of the time of a step: less is not worth a file
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


def three_ways(kept: Kept) -> list[list[str]]:
    """A table with its head."""
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
    return [["", *WAYS], *told]


def _seconds(ms: float | None) -> str:
    return "" if ms is None else clock(ms / 1000)


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
