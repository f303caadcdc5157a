"""What each cell and contrast shows, and what a sweep's GPUs and its time do: rows of questions, and verdicts in
words, for whoever displays them.

The arithmetic is in the questions' SQL, and so are the columns' meanings.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from cudnn_sweep.analysis.answering.answers import AnswerRow
from cudnn_sweep.analysis.asking.settings import shortened
from cudnn_sweep.analysis.words import counted, given, two_digits

FIRST_LOOK = 3  # blocks, as `so_far` in macros/shown.sql has it
SO_FAR = ("so_far_faster", "so_far_slower", "undecided")
TOLD_SHOWN = 5
CACHES = ("empty", "warm")

CellKey: TypeAlias = tuple[str, str, str, str | None]
"""Cell, hardware, software, and the hash of a user's code: what trials have to share to be one cell's."""


class OfCell(AnswerRow):
    @property
    def key(self) -> CellKey:
        return self.cell_id, self.env_hash, self.software_hash, self.workload_hash


class OfContrast(OfCell):
    @property
    def identity(self) -> tuple[str | bool | None, ...]:
        """What the answers about one cell and contrast have in common."""
        return *self.key, self.contrast, self.other_settings, self.loop_kind, self.in_turns


class Verdict(OfContrast):
    """One cell and contrast; `no_effect` is shown where the setting cannot have mattered, `fails` where the
    candidate failed in more blocks than its baseline, by Fisher's exact test.
    """

    question = "helps_or_hurts"


class BreakEven(OfContrast):
    """When one cell's extra cold cost has paid for itself, for one state of the compute cache."""

    question = "break_even"
    outcome: str


class ContrastState(AnswerRow):
    """Whether one cell and contrast is decided."""

    question = "decided"
    recorded_blocks: int
    at_most: int | None
    blocks_needed: int | None
    block_s: float


class GpuSpeed(AnswerRow):
    """One GPU and measure; `finding` is slow, fast, differs, alike or alone. GPUs that are off come first, then model
    by model, the slowest before others.
    """

    question = "slow_gpus"


class Surroundings(AnswerRow):
    """One host, hardware and software, and what was doubtful there."""

    question = "environment"


class TimeShare(AnswerRow):
    """One part of the trials' time; the shares of a sweep add up to 1."""

    question = "where_time_goes"


def headline(verdicts: Sequence[Verdict], min_effect: float, of_cells: int = 0) -> str:
    """How many of one contrast's cells are decided, and how; and what the others look like so far.
    `of_cells`: how many the plan has, where it is known.
    """
    counts = Counter(each.wall_verdict for each in verdicts)
    phrases = {
        "fails": "fails in",
        "helps": "helps in",
        "hurts": "hurts in",
        "equivalent": f"makes no difference of {given(100 * min_effect)}% in",
        "no_effect": "cannot have an effect in",
    }
    known = [f"{phrase} {counts[name]:,}" for name, phrase in phrases.items() if counts[name]]
    faster, slower, undecided = (counts[name] for name in SO_FAR)
    single = sum(each.wall_verdict == "undecided" and each.blocks == 1 for each in verdicts)
    lost, inconclusive = counts["not_measured"], counts["inconclusive"]
    reasons = sorted({each.wall_in_words.partition(": ")[2] for each in verdicts} - {""})
    looks = f"{faster or 'none'} look{'s' * (faster == 1)} faster so far, {slower or 'none'} slower"
    others = [
        (faster + slower, looks),
        (undecided - single, f"{undecided - single:,} open"),
        (single, f"{single:,} with one block"),
        (inconclusive, f"{inconclusive:,} inconclusive"),
        (lost, f"{lost:,} not measured ({', '.join(reasons)})"),
    ]
    decided, cells = sum(counts[name] for name in phrases), max(of_cells, len(verdicts))
    others.append((cells - len(verdicts), f"{cells - len(verdicts):,} without a block"))
    parts = [f"{decided:,} of {counted(cells, 'cell')} decided"]
    parts[0] += f" ({', '.join(known)})" if known else ""
    parts += [text for count, text in others if count]
    return f"{shortened(verdicts[0].contrast)}: {', '.join(parts)}."


def blocks_left_out(verdicts: Sequence[Verdict]) -> list[str]:
    """How many blocks no verdict rests on, and why."""
    said = {
        "split_blocks": "split over GPUs or launches, and left out",
        "doubtful_blocks": "left out because the GPU was throttled or shared",
        "unpaired_blocks": "left out because one of the two trials failed or is missing",
    }
    counts = {name: sum(getattr(each, name) for each in verdicts) for name in said}
    return [f"{counted(count, 'block')} {said[name]}." for name, count in counts.items() if count]


def third_blocks(verdicts: Iterable[Verdict]) -> str | None:
    """What a further launch gives the cells before their first look, and how long it takes."""
    cells = {
        each.cell_id: (FIRST_LOOK - each.blocks) * each.block_s
        for each in verdicts
        if each.wall_verdict in SO_FAR and each.blocks < FIRST_LOOK
    }
    minutes = sum(cells.values()) / 60
    time = f"about {counted(max(1, round(minutes)), 'minute')} of one GPU"
    return f"gives each open cell its third block ({time})" if cells else None


def more_blocks(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """What the cells lack that were looked at."""
    lacking = [each.blocks_needed or 0 for each in verdicts if each.blocks >= FIRST_LOOK]
    if found := sorted(filter(None, lacking)):
        told = f"About {two_digits(found[0])} more block{'s' * (found[0] > 1)} would decide one"
        yield f"{told} of {counted(len(found), 'open cell')}."


def told_lines(verdicts: Iterable[Verdict], label: Callable[[Verdict], str]) -> Iterator[str]:
    """What a verdict alone does not tell: what the device shows where the loop waits for the CPU, and what
    processes chose; of the first cells that have it.
    """
    said = [
        f"{label(verdict)}: {text}."
        for verdict in verdicts
        for text in (verdict.headline, verdict.by_choice)
        if text
    ]
    yield from said[:TOLD_SHOWN]


def payback(row: BreakEven) -> str:
    """When the extra cold cost has paid for itself, in a few words."""
    iterations = row.break_even_iterations
    if iterations is None or row.outcome not in ("after", "until"):
        shown = {"open loop": "always searching", "inconclusive": "?"}
        return shown.get(row.outcome, row.outcome.replace("_", " "))
    said = two_digits(iterations)
    return f"after {said}" if row.outcome == "after" else f"ahead until {said}"
