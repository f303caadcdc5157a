"""How a contrast's cells stand, in words: what a report says first, and a launch last."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from cudnn_sweep.analysis.answering.verdicts import FIRST_LOOK, SO_FAR, Verdict


def headline(verdicts: Sequence[Verdict], min_effect: float) -> str:
    """How many of one contrast's cells are decided, and how; and what the others look like so far."""
    counts = Counter(verdict.wall_verdict for verdict in verdicts)
    phrases = {
        "fails": "fails in",
        "helps": "helps in",
        "hurts": "hurts in",
        "equivalent": f"makes no difference of {100 * min_effect:.3g}% in",
        "no_effect": "cannot have an effect in",
    }
    decided = [f"{phrase} {counts[name]:,}" for name, phrase in phrases.items() if counts[name]]
    contrast, total = verdicts[0].contrast, f"{len(verdicts):,} cell{'s' * (len(verdicts) > 1)}"
    if so_far := _so_far(verdicts, counts):
        many = sum(counts[name] for name in phrases)
        how = f" ({', '.join(decided)})" if decided else ""
        return f"{contrast}: {many:,} of {total} decided{how}; {', '.join(so_far)}."
    if counts["inconclusive"]:
        decided.append(f"is inconclusive in {counts['inconclusive']:,}")
    return f"{contrast}, over {total}: {', '.join(decided)}."


def _so_far(verdicts: Sequence[Verdict], counts: Mapping[str, int]) -> list[str]:
    """Empty where every cell was looked at."""
    faster, slower = counts["so_far_faster"], counts["so_far_slower"]
    single = sum(each.wall_verdict == "undecided" and each.blocks == 1 for each in verdicts)
    reasons = {each.wall_in_words.partition(": ")[2] for each in verdicts} - {""}
    said = {
        f"{faster or 'none'} look{'s' * (faster == 1)} faster so far": faster + slower,
        f"{slower or 'none'} slower": faster + slower,
        f"{counts['undecided'] - single:,} open": counts["undecided"] - single,
        f"{single:,} with one block": single,
        f"{counts['not_measured']:,} not measured ({', '.join(sorted(reasons))})": counts[
            "not_measured"
        ],
    }
    found = [text for text, count in said.items() if count]
    inconclusive = counts["inconclusive"]
    return [*found, f"{inconclusive:,} inconclusive"] if found and inconclusive else found


def third_blocks(verdicts: Iterable[Verdict]) -> str | None:
    """What a further launch gives the cells that were not looked at, and how long it takes."""
    lacking = {
        each.cell_id: each
        for each in sorted(verdicts, key=lambda each: each.blocks_needed or 0)
        if each.wall_verdict in SO_FAR and each.blocks < FIRST_LOOK
    }
    if not lacking:
        return None
    blocks = sum(each.blocks_needed or 0 for each in lacking.values())
    minutes = round(sum((each.blocks_needed or 0) * each.block_s for each in lacking.values()) / 60)
    return (
        f"gives {len(lacking):,} {'cell its' if len(lacking) == 1 else 'cells their'} third block: "
        f"{blocks:,} {'block' if blocks == 1 else 'blocks'}, about {minutes:,} minutes of one GPU"
    )
