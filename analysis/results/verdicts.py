"""Row classes of questions about verdicts, and sentences that sum up verdicts."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from cudnn_sweep.analysis.engine.settings import shortened
from cudnn_sweep.analysis.results.answers import AnswerRow
from cudnn_sweep.analysis.words import counted, given, two_digits

FIRST_LOOK = 3  # fewest blocks of an inconclusive verdict, as in macros/verdicts.sql
SO_FAR = ("so_far_faster", "so_far_slower", "undecided")
LINES_SHOWN = 5
CACHES = ("empty", "warm")

CellKey: TypeAlias = tuple[str, str, str, str | None]
"""Hashes of a row's cell, hardware, software and user code. The last may be None."""


class OfCell(AnswerRow):
    @property
    def key(self) -> CellKey:
        return self.cell_id, self.env_hash, self.software_hash, self.workload_hash


class OfContrast(OfCell):
    @property
    def identity(self) -> tuple[str | bool | None, ...]:
        """Key of the row's cell and contrast. It is the same in the rows of all questions."""
        return *self.key, self.contrast, self.other_settings, self.loop_kind, self.in_turns


class Verdict(OfContrast):
    question = "helps_or_hurts"


class BreakEven(OfContrast):
    question = "break_even"
    outcome: str


class ContrastState(AnswerRow):
    question = "decided"
    recorded_blocks: int
    at_most: int | None
    blocks_needed: int | None
    block_s: float


class RaceState(ContrastState):
    question = "race"
    best: str
    best_ms: float | None
    other: str

    @property
    def other_settings(self) -> str:
        return self.other


class GpuSpeed(AnswerRow):
    question = "slow_gpus"


class Surroundings(AnswerRow):
    question = "environment"


class TimeShare(AnswerRow):
    question = "where_time_goes"


def headline(verdicts: Sequence[Verdict], min_effect: float, of_cells: int = 0) -> str:
    """Return a sentence that counts verdicts. `of_cells` counts planned cells (0 if unknown)."""
    counts = Counter(verdict.wall_verdict for verdict in verdicts)
    cells = max(of_cells, len(verdicts))
    phrases = {
        "fails": "fails in",
        "helps": "helps in",
        "hurts": "hurts in",
        "equivalent": f"makes no difference of {given(100 * min_effect)}% or more in",
        "no_effect": "cannot have an effect in",
    }
    outcomes = [f"{phrase} {counts[name]:,}" for name, phrase in phrases.items() if counts[name]]
    faster, slower, undecided = (counts[name] for name in SO_FAR)
    single = [each.blocks for each in verdicts if each.wall_verdict == "undecided"].count(1)
    lost, inconclusive = counts["not_measured"], counts["inconclusive"]
    reasons = sorted({verdict.wall_in_words.partition(": ")[2] for verdict in verdicts} - {""})
    looks = f"{faster or 'none'} look{'s' * (faster == 1)} faster so far, {slower or 'none'} slower"
    open_cells = [
        (faster + slower, looks),
        (undecided - single, f"{undecided - single:,} open"),
        (single, f"{single:,} with one block"),
        (inconclusive, f"{inconclusive:,} inconclusive"),
        (lost, f"{lost:,} not measured ({', '.join(reasons)})"),
        (cells - len(verdicts), f"{cells - len(verdicts):,} without a block"),
    ]
    decided = f"{sum(counts[name] for name in phrases):,} of {counted(cells, 'cell')} decided"
    decided += f" ({', '.join(outcomes)})" if outcomes else ""
    parts = [decided, *(text for count, text in open_cells if count)]
    return f"{shortened(verdicts[0].contrast)}: {', '.join(parts)}."


def blocks_left_out(verdicts: Sequence[Verdict]) -> list[str]:
    reasons = {
        "split_blocks": "left out because the two trials ran on two GPUs or in two launches",
        "doubtful_blocks": "left out because a trial shared the GPU or both trials were throttled",
        "unpaired_blocks": "left out because one of the two trials failed or is missing",
    }
    counts = {name: sum(getattr(verdict, name) for verdict in verdicts) for name in reasons}
    return [
        f"{counted(count, 'block')} {reasons[name]}." for name, count in counts.items() if count
    ]


def third_blocks(verdicts: Iterable[Verdict]) -> str | None:
    """Return a text on the third blocks that a launch adds, or None if no open cell lacks one."""
    cells = {
        verdict.cell_id: (FIRST_LOOK - verdict.blocks) * verdict.block_s
        for verdict in verdicts
        if verdict.wall_verdict in SO_FAR and verdict.blocks < FIRST_LOOK
    }
    minutes = sum(cells.values()) / 60
    time = f"about {counted(max(1, round(minutes)), 'minute')} of one GPU"
    return f"gives each open cell its third block ({time})" if cells else None


def more_blocks(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """Yield a sentence about how many more blocks would decide an open cell, if this is known."""
    lacking = [verdict.blocks_needed or 0 for verdict in verdicts if verdict.blocks >= FIRST_LOOK]
    if needed := sorted(filter(None, lacking)):
        blocks = f"About {two_digits(needed[0])} more block{'s' * (needed[0] > 1)}"
        which = f"the first of {len(needed):,} open cells" if needed[1:] else "an open cell"
        yield f"{blocks} would decide {which}."


def further_lines(verdicts: Iterable[Verdict], label: Callable[[Verdict], str]) -> list[str]:
    """Return the first LINES_SHOWN lines about verdicts. `label` returns the name of the cell."""
    lines = [
        f"{label(verdict)}: {text}."
        for verdict in verdicts
        for text in (verdict.headline, verdict.by_choice, verdict.errors)
        if text
    ]
    return lines[:LINES_SHOWN]


def payback(row: BreakEven) -> str:
    iterations = row.break_even_iterations
    if iterations is None or row.outcome not in ("after", "until"):
        shown = {"open loop": "always searching", "inconclusive": "?"}
        return shown.get(row.outcome, row.outcome.replace("_", " "))
    count = two_digits(iterations)
    return f"after {count}" if row.outcome == "after" else f"ahead until {count}"
