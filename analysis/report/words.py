"""The answer in words: what a contrast does, the largest gain and loss, and what it cost to know."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from cudnn_sweep.analysis.answering.verdict_words import more_blocks
from cudnn_sweep.analysis.answering.verdicts import (
    SO_FAR,
    BreakEven,
    CellKey,
    Verdict,
    told_lines,
)
from cudnn_sweep.analysis.report.content import Compared, Content, effect
from cudnn_sweep.analysis.words import change, counted, duration, number, percent, two_digits

LARGEST = (("gain", "helps", "so_far_faster"), ("loss", "hurts", "so_far_slower"))
CACHES = ("empty", "warm")
REASONS = {
    "no_cuda": "there is no GPU",
    "not_cudnn": "nothing in them ran in cuDNN",
    "flag_not_consulted": "what ran does not read this setting",
}
TWINS = "A/A pairs compare a config with itself: what helps or hurts here is a false alarm."
NOTHING_STORED = "No trial is stored here: there is nothing to report yet."
NOTHING_COMPARED = "No two configs that differ in one setting were measured in one cell: there is nothing to compare."


def sentences(
    compared: Compared, labels: Mapping[CellKey, str], next_step: str | None
) -> list[str]:
    """The largest gain and loss, the next step, what more blocks would tell, and why a setting had no effect
    where it had none.
    """
    said = [TWINS] if compared.contrast.is_twins else []
    said += [_failing(each, labels) for each in compared.verdicts if each.wall_verdict == "fails"]
    by_verdict = defaultdict(list)
    for each in compared.verdicts:
        by_verdict[each.wall_verdict].append(each)
    for what, proven, so_far in LARGEST:
        if found := by_verdict[proven] or by_verdict[so_far]:
            said.append(_largest(what, found, compared, labels))
    if not said and by_verdict["inconclusive"]:
        said.append("No gain or loss is proven yet.")
    said += [next_step] if next_step else []
    said += told_lines(compared.verdicts, lambda each: labels[each.key])
    said += more_blocks(compared.verdicts)
    return [*said, *_why_without_effect(compared.verdicts)]


def cost(content: Content) -> str:
    """Trials, the slots' time, and how much of it was measuring."""
    total_s = sum(share.total_s for share in content.time_shares)
    measuring_s = sum(share.total_s for share in content.time_shares if share.measuring)
    trials = sum(cell.stored.trials for cell in content.cells)
    gpus = ", ".join(sorted({cell.stored.gpu for cell in content.cells}))
    share = f", {percent(measuring_s / total_s)} of it measuring" if total_s else ""
    return (
        f"What it cost: {counted(trials, 'trial')} in {counted(content.sweeps.num_rows, 'sweep')}, "
        f"{duration(total_s)} of {gpus}{share}."
    )


def payback(row: BreakEven) -> str:
    """When the extra cold cost has paid for itself, in a few words."""
    iterations = row.break_even_iterations
    if iterations is None or row.outcome not in ("after", "until"):
        shown = {"open loop": "always searching", "inconclusive": "?"}
        return shown.get(row.outcome, row.outcome.replace("_", " "))
    said = two_digits(iterations)
    return f"after {said}" if row.outcome == "after" else f"ahead until {said}"


def _largest(
    what: str,
    verdicts: Sequence[Verdict],
    compared: Compared,
    labels: Mapping[CellKey, str],
) -> str:
    verdict = max(verdicts, key=lambda each: effect(each.ratio))
    times = ""
    if verdict.baseline_ms is not None and verdict.candidate_ms is not None:
        times = f", {number(verdict.baseline_ms)} → {number(verdict.candidate_ms)} ms an iteration"
    label = labels[verdict.key]
    paid = _paid(compared.paybacks(verdict)) if what == "gain" else ""
    open_loop = "; new shapes never end there, nor do searches" if _searches_on(verdict) else ""
    so_far = " so far" if verdict.wall_verdict in SO_FAR else ""
    assert verdict.ratio is not None, "a gain and a loss have one"
    size = change(verdict.ratio, verdict.ratio_low, verdict.ratio_high, of=" time")
    return f"Largest {what}{so_far}: {label}: {size}{times}{paid}{open_loop}."


def _failing(verdict: Verdict, labels: Mapping[CellKey, str]) -> str:
    label = labels[verdict.key]
    blocks = verdict.blocks + verdict.unpaired_blocks
    return (
        f"{label} fails with the candidate in {verdict.candidate_failed} of {blocks} blocks, with the "
        f"baseline in {verdict.baseline_failed}: `sweep query failures` says how."
    )


def _searches_on(verdict: Verdict) -> bool:
    return verdict.loop_kind == "open" and verdict.wall_verdict == "hurts"


def _paid(paybacks: Mapping[str, BreakEven]) -> str:
    said = [
        f"{payback(paybacks[cache])} ({cache} compute cache)"
        for cache in CACHES
        if cache in paybacks and paybacks[cache].loop_kind != "open"
    ]
    return f"; break-even: {', '.join(said)}" if said else ""


def _why_without_effect(verdicts: Iterable[Verdict]) -> list[str]:
    without = (each for each in verdicts if each.wall_verdict == "no_effect")
    reasons = Counter(str(each.no_effect_reason) for each in without)
    return [
        f"No effect is possible in {counted(count, 'cell')}: {REASONS.get(reason, reason)}."
        for reason, count in reasons.most_common()
    ]
