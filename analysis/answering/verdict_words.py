"""How a contrast's cells stand, in words: what a report says first, and a launch last."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from cudnn_sweep.analysis.answering.verdicts import FIRST_LOOK, SO_FAR, Verdict
from cudnn_sweep.analysis.words import counted, given, two_digits


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
    return f"{verdicts[0].contrast}: {', '.join(parts)}."


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
