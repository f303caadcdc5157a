"""Builds the data of a report, which the page embeds and `--format json` prints."""

import shlex
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cudnn_sweep.analysis.report.cells import shared
from cudnn_sweep.analysis.report.content import Compared, Content, JudgedCell, effect
from cudnn_sweep.analysis.report.pages.page import options_of
from cudnn_sweep.analysis.report.sheets import Sheet, sheets
from cudnn_sweep.analysis.results.verdicts import (
    CACHES,
    SO_FAR,
    BreakEven,
    Verdict,
    blocks_left_out,
    further_lines,
    headline,
    more_blocks,
    payback,
)
from cudnn_sweep.analysis.store.schema import axes
from cudnn_sweep.analysis.words import change, counted, duration, listed, number, percent

WARNINGS = (
    "throttled",
    "shared_gpu",
    "power_capped",
    "clocks_unsettled",
    "other_shapes",
    "own_loss_unused",
    "not_finite",
    "diverged",
)
LARGEST = (("gain", "helps", "so_far_faster"), ("loss", "hurts", "so_far_slower"))
REASONS = {
    "no_cuda": "there is no GPU",
    "not_cudnn": "nothing in them ran in cuDNN",
    "flag_not_consulted": "none of the operations that ran reads this setting",
    "miopen": "on ROCm this is a setting of MIOpen, which is not judged",
}
TWINS = "A/A pairs compare a config with itself, so every helps or hurts is a false alarm."
NOTHING_STORED = "No trial is stored here, so there is nothing to report yet."
NOTHING_COMPARED = "No cell has two configs that differ in one setting, so nothing is compared."


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedWords:
    name: str
    headline: str
    sentences: Sequence[str]
    left_out: Sequence[str]
    jobs_query: str
    """Command that prints advice for a job. STEPS and START are placeholders."""
    counts: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Payload:
    location: str
    min_effect: float
    common: Sequence[str]
    """Values that all cells have in common, for example the GPU."""
    axes: Sequence[str]
    nothing: str | None
    """Reason why the report has no verdicts. None if it has any."""
    cost: str
    contrasts: Sequence[ComparedWords]
    left_out: Sequence[str]
    """Sentences about failed, missing or omitted trials and about damaged files."""
    warnings: Sequence[str]
    trials_query: str
    """Command that lists the trials of a cell. CELL is a placeholder for its cell_id."""
    failures_query: str
    tables: Mapping[str, Sheet]


def payload(content: Content) -> Payload:
    nothing = NOTHING_COMPARED if content.cells else NOTHING_STORED
    where = options_of(content.locations)
    warned = {name: sum(content.environments[name].to_pylist()) for name in WARNINGS}
    warnings = [f"{counted(n, 'trial')}: {name}." for name, n in warned.items() if n]
    lists = content.environments["resembling_sweeps"].to_pylist()
    if resembling := {sweep_id for names in lists for sweep_id in names or ()}:
        warnings.append(
            f"{counted(len(resembling), 'sweep')}: blocks resemble the blocks before them."
        )
    return Payload(
        location=", ".join(content.locations),
        min_effect=content.min_effect,
        common=shared(content.cells),
        axes=list(axes()),
        nothing=None if content.compared else nothing,
        cost=cost(content) if content.cells else "",
        contrasts=[_in_words(content, compared, where) for compared in content.compared],
        left_out=_left_out(content),
        warnings=warnings,
        trials_query=f"sweep query \"select * from records where cell_id = 'CELL'\" {where}",
        failures_query=f"sweep query failures {where}",
        tables=sheets(content),
    )


def _in_words(content: Content, compared: Compared, where: str) -> ComparedWords:
    # with several sweeps, it is unknown which of them will measure a cell
    not_begun = _not_begun(content) if content.sweeps.num_rows == 1 else 0
    values = compared.contrast.values().items()
    asked = " ".join(f"--{name} {shlex.quote(str(value))}" for name, value in values)
    of_cells = len(compared.verdicts) + not_begun
    return ComparedWords(
        name=str(compared.contrast),
        headline=headline(compared.verdicts, content.min_effect, of_cells),
        sentences=sentences(compared),
        left_out=blocks_left_out(compared.verdicts),
        jobs_query=f"sweep query advice --steps STEPS --state START {asked} {where}",
        counts=dict(Counter(verdict.wall_verdict for verdict in compared.verdicts)),
    )


def _left_out(content: Content) -> list[str]:
    statuses = Counter(content.failures["status"].to_pylist())
    failed = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    total = counted(content.failures.num_rows, "trial")
    unshown = sum(cell.trials for cell in content.cells) - content.trials.num_rows
    reasons = [f"{total} did not end well: {failed}."] if failed else []
    lacking = sum(row["planned"] - row["recorded"] for row in content.sweeps.to_pylist())
    not_begun = _not_begun(content)
    cells = f" ({counted(not_begun, 'cell')} without any block)" if not_begun else ""
    gap = f"{counted(lacking, 'trial')} planned but not recorded{cells}; launch again to resume."
    reasons += [gap] if lacking > 0 else []
    reasons += [f"The file {path} is damaged." for path in content.torn_files]
    if unshown:
        reasons.append(
            f"{counted(unshown, 'trial')} of cells with small effects are not in this file."
        )
    return reasons


def _not_begun(content: Content) -> int:
    return sum(content.sweeps["not_begun"].to_pylist())


def sentences(compared: Compared) -> list[str]:
    by_verdict = defaultdict(list)
    for cell in compared.cells:
        by_verdict[cell.verdict.wall_verdict].append(cell)
    lines = [TWINS] if compared.contrast.is_twins else []
    lines += map(_failing, by_verdict["fails"])
    for size, proven, so_far in LARGEST:
        if cells := by_verdict[proven] or by_verdict[so_far]:
            lines.append(_largest(size, cells))
    if not lines and by_verdict["inconclusive"]:
        lines.append("No gain or loss is proven yet.")
    labels = {cell.verdict.key: cell.cell.label for cell in compared.cells}
    lines += further_lines(compared.verdicts, lambda verdict: labels[verdict.key])
    lines += more_blocks(compared.verdicts)
    reasons = Counter(str(cell.verdict.no_effect_reason) for cell in by_verdict["no_effect"])
    lines += [
        f"No effect is possible in {counted(count, 'cell')}: {REASONS.get(reason, reason)}."
        for reason, count in reasons.most_common()
    ]
    return lines


def cost(content: Content) -> str:
    total_s = sum(share.total_s for share in content.time_shares)
    measuring_s = sum(share.total_s for share in content.time_shares if share.measuring)
    trials = sum(cell.trials for cell in content.cells)
    gpus = ", ".join(sorted({cell.gpu for cell in content.cells}))
    share = f", {percent(measuring_s / total_s)} of that time for measuring" if total_s else ""
    known = content.environments["commits"].to_pylist()
    commits = sorted({commit[:7] for names in known for commit in names or ()})
    pooled = f" Results of commits {listed(commits)} are judged together." if commits[1:] else ""
    return (
        f"What it cost: {counted(trials, 'trial')} in {counted(content.sweeps.num_rows, 'sweep')}, "
        f"{duration(total_s)} of {gpus}{share}.{pooled}"
    )


def _largest(noun: str, cells: Sequence[JudgedCell]) -> str:
    judged = max(cells, key=lambda cell: effect(cell.verdict.ratio))
    verdict: Verdict = judged.verdict
    times = f"{number(verdict.baseline_ms)} → {number(verdict.candidate_ms)} ms per iteration"
    paid = _paid(judged.paybacks) if noun == "gain" else ""
    searches_on = verdict.loop_kind == "open" and verdict.wall_verdict == "hurts"
    open_loop = "; new shapes keep coming, so searches never end" if searches_on else ""
    so_far = " so far" if verdict.wall_verdict in SO_FAR else ""
    size = change(verdict.ratio, verdict.ratio_low, verdict.ratio_high, of=" time")
    return f"Largest {noun}{so_far}: {judged.cell.label}: {size}, {times}{paid}{open_loop}."


def _failing(judged: JudgedCell) -> str:
    verdict = judged.verdict
    return (
        f"{judged.cell.label} fails with the candidate in {verdict.candidate_failed} of "
        f"{verdict.blocks + verdict.unpaired_blocks} blocks, with the "
        f"baseline in {verdict.baseline_failed}: `sweep query failures` lists the failed trials."
    )


def _paid(paybacks: Mapping[str, BreakEven]) -> str:
    points = [
        f"{payback(paybacks[cache])} ({cache} compute cache)"
        for cache in CACHES
        if cache in paybacks and paybacks[cache].loop_kind != "open"
    ]
    return f"; break-even: {', '.join(points)}" if points else ""
