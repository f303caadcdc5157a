"""Rows of the questions about cells and contrasts, GPUs and time, and verdicts in words, for
whoever displays them.

The arithmetic is in the questions' SQL, and so are the columns' meanings.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from cudnn_sweep.analysis.engine.settings import shortened
from cudnn_sweep.analysis.results.answers import AnswerRow
from cudnn_sweep.analysis.words import counted, given, two_digits

FIRST_LOOK = 3  # blocks, as `so_far` in macros/shown.sql has it
SO_FAR = ("so_far_faster", "so_far_slower", "undecided")
LINES_SHOWN = 5
CACHES = ("empty", "warm")

CellKey: TypeAlias = tuple[str, str, str, str | None]
"""Cell, hardware, software, and the hash of a user's code: trials of one cell share them."""


class OfCell(AnswerRow):
    @property
    def key(self) -> CellKey:
        return self.cell_id, self.env_hash, self.software_hash, self.workload_hash


class OfContrast(OfCell):
    @property
    def identity(self) -> tuple[str | bool | None, ...]:
        """Return the columns that all answers about one cell and contrast share."""
        return *self.key, self.contrast, self.other_settings, self.loop_kind, self.in_turns


class Verdict(OfContrast):
    """One cell and contrast. Its verdict is `no_effect` if the setting cannot have mattered; `fails` if the candidate
    failed in more blocks than its baseline, by Fisher's exact test.
    """

    question = "helps_or_hurts"


class BreakEven(OfContrast):
    """The break-even point of one cell's extra cold cost, for one state of the compute cache."""

    question = "break_even"
    outcome: str


class ContrastState(AnswerRow):
    question = "decided"
    recorded_blocks: int
    at_most: int | None
    blocks_needed: int | None
    block_s: float


class GpuSpeed(AnswerRow):
    """One GPU and measure; `finding` is slow, fast, differs, alike or alone. Odd GPUs come first;
    then GPUs by model, the slowest first."""

    question = "slow_gpus"


class Surroundings(AnswerRow):
    """One host, hardware and software, and its doubtful trials."""

    question = "environment"


class TimeShare(AnswerRow):
    """One part of the trials' time; the shares of a sweep add up to 1."""

    question = "where_time_goes"


def headline(verdicts: Sequence[Verdict], min_effect: float, of_cells: int = 0) -> str:
    """Return how many of one contrast's cells are decided, and how, and the state of the others.

    `of_cells`: the number of cells in the plan; 0 if unknown.
    """
    counts = Counter(verdict.wall_verdict for verdict in verdicts)
    phrases = {
        "fails": "fails in",
        "helps": "helps in",
        "hurts": "hurts in",
        "equivalent": f"makes no difference of {given(100 * min_effect)}% in",
        "no_effect": "cannot have an effect in",
    }
    outcomes = [f"{phrase} {counts[name]:,}" for name, phrase in phrases.items() if counts[name]]
    faster, slower, undecided = (counts[name] for name in SO_FAR)
    single = sum(
        verdict.wall_verdict == "undecided" and verdict.blocks == 1 for verdict in verdicts
    )
    lost, inconclusive = counts["not_measured"], counts["inconclusive"]
    reasons = sorted({verdict.wall_in_words.partition(": ")[2] for verdict in verdicts} - {""})
    looks = f"{faster or 'none'} look{'s' * (faster == 1)} faster so far, {slower or 'none'} slower"
    open_cells = [
        (faster + slower, looks),
        (undecided - single, f"{undecided - single:,} open"),
        (single, f"{single:,} with one block"),
        (inconclusive, f"{inconclusive:,} inconclusive"),
        (lost, f"{lost:,} not measured ({', '.join(reasons)})"),
    ]
    decided, cells = sum(counts[name] for name in phrases), max(of_cells, len(verdicts))
    open_cells.append((cells - len(verdicts), f"{cells - len(verdicts):,} without a block"))
    parts = [f"{decided:,} of {counted(cells, 'cell')} decided"]
    parts[0] += f" ({', '.join(outcomes)})" if outcomes else ""
    parts += [text for count, text in open_cells if count]
    return f"{shortened(verdicts[0].contrast)}: {', '.join(parts)}."


def blocks_left_out(verdicts: Sequence[Verdict]) -> list[str]:
    """Return how many blocks are left out of verdicts, and why."""
    reasons = {
        "split_blocks": "split over GPUs or launches, and left out",
        "doubtful_blocks": "left out because the GPU was throttled or shared",
        "unpaired_blocks": "left out because one of the two trials failed or is missing",
    }
    counts = {name: sum(getattr(verdict, name) for verdict in verdicts) for name in reasons}
    return [
        f"{counted(count, 'block')} {reasons[name]}." for name, count in counts.items() if count
    ]


def third_blocks(verdicts: Iterable[Verdict]) -> str | None:
    """Return what one more launch adds to cells that are before their first look, and its time."""
    cells = {
        verdict.cell_id: (FIRST_LOOK - verdict.blocks) * verdict.block_s
        for verdict in verdicts
        if verdict.wall_verdict in SO_FAR and verdict.blocks < FIRST_LOOK
    }
    minutes = sum(cells.values()) / 60
    time = f"about {counted(max(1, round(minutes)), 'minute')} of one GPU"
    return f"gives each open cell its third block ({time})" if cells else None


def more_blocks(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """Yield how many more blocks decide the nearest open cell that is past its first look."""
    lacking = [verdict.blocks_needed or 0 for verdict in verdicts if verdict.blocks >= FIRST_LOOK]
    if needed := sorted(filter(None, lacking)):
        text = f"About {two_digits(needed[0])} more block{'s' * (needed[0] > 1)} would decide one"
        yield f"{text} of {counted(len(needed), 'open cell')}."


def further_lines(verdicts: Iterable[Verdict], label: Callable[[Verdict], str]) -> list[str]:
    """Return lines that explain verdicts, for the first cells with any: the device's ratio if the
    loop is CPU-bound, and the choices of processes."""
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
