"""The meanings of an answer's columns, from the question's head, SHARED or `records`. The meanings
of other columns follow from an ending in ENDS or a side in SIDES."""

import re
from tempfile import TemporaryDirectory

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.engine.queries import NamedQuery
from cudnn_sweep.analysis.store.schema import arrow_schema
from cudnn_sweep.analysis.store.store import open_store

SHARED = {
    "contrast": "what differs: the baseline's value → the candidate's",
    "other_settings": "settings that baseline and candidate share",
    "settings": "the config's settings",
    "loop_kind": "closed or open; mixed if the two loops differ; mixed loops are not compared",
    "in_turns": "whether a block's processes took turns: log ratios are then medians over rounds",
    "blocks": "paired blocks: both trials ok, on one slot, in one launch, and not doubtful",
    "split_blocks": "blocks left out because their trials ran on two slots or in two launches; "
    "a later repeat of the whole block is used instead",
    "doubtful_blocks": "blocks left out: GPU shared in either trial, or throttled in both trials",
    "unpaired_blocks": "blocks left out: a trial failed, or is missing",
    "recorded_blocks": "blocks with a recorded trial of each side, including blocks left out",
    "at_most": "largest number of blocks that the sweep may run; null if their number was fixed",
    "block_s": "mean time of one block of the cell, seconds",
    "blocks_needed": "further blocks that would decide in four of five cases; if unknown, "
    "those that are missing for a total of three; null above 1,000",
    "error_share": "share of the error that this look may spend; 1 if the number of blocks is fixed",
    "baseline_failed": "blocks in which the baseline's trial failed",
    "baseline_processes": "processes of the baseline",
    "doubtful_processes": "processes left out, of either side: GPU throttled or shared",
    "baseline_ms": "wall time per iteration of the baseline, geometric mean over its processes",
    "ratio": "wall time of the candidate / of the baseline, geometric mean",
    "wall_verdict": "verdict in wall time: helps, hurts, equivalent, inconclusive, fails, no_effect; before the first "
    "look so_far_faster, so_far_slower or undecided; not_measured if no block has a pair of trials that ended well",
    "wall_in_words": "wall_verdict with details, such as 'so far faster (2 blocks)'",
    "surely": "faster or slower if the ratio's interval excludes 1, by any amount; else null",
    "baseline_device_ms": "device time per iteration of the baseline, geometric mean over its processes",
    "device_ratio": "device time of the candidate / of the baseline, geometric mean",
    "device_verdict": "like wall_verdict, in device time; null if either device time is unknown",
    "no_effect_reason": "why the setting cannot have mattered: no_cuda, not_cudnn, "
    "flag_not_consulted, or miopen (on ROCm: MIOpen is not judged); null if it could",
    "compute_cache": "state of CUDA's on-disk kernel cache when trials started: empty, warm, "
    "disabled, or none without CUDA",
    "baseline_peak_reserved_bytes": "most memory that PyTorch reserved in a trial of the baseline",
    "baseline_steady_reserved_bytes": "most memory reserved while the baseline's loop was timed",
    "baseline_results": "number of different results of the baseline, at equal inputs and weights",
    "blocks_with_same_bits": "paired blocks in which baseline and candidate computed the same bits",
    "reproducibility": "whether bits repeat: already (on both sides), gained (candidate alone), "
    "lost (baseline alone) or not gained (on neither side); "
    "null if a side has fewer than two processes with known bits",
    "other_kernels_share": "blocks in which the sides' kernels differ / blocks with known kernels",
    "other_kernels_device_ratio": "device ratio over the blocks whose kernels differ",
    "same_kernels_device_ratio": "device ratio over the blocks with the same kernels",
    "headline": "wall and device ratios of the same blocks if the loop is CPU-bound and their verdicts "
    "differ; else null",
    "wall_statistical_verdict": "verdict of the statistics alone",
    "device_statistical_verdict": "verdict of the statistics alone",
    "memory_ratio": "candidate's peak of reserved bytes / baseline's, geometric mean over blocks",
    "memory_verdict": "verdict on memory_ratio (searches included); helps means less memory",
    "baseline_peak_allocated_bytes": "most memory in tensors and workspaces of the baseline",
    "baseline_workspace_bytes": "largest workspace of the plans that the baseline's logs show",
    "blocks_with_bits": "paired blocks in which the bits of baseline and candidate are known",
    "baseline_cell_id": "cell_id of the baseline",
    "night": "sweep_id of the night",
    "metric": "what is measured; times are in ms, memory is in bytes, and the error is relative",
    "planned": "trials in the sweep's plan",
    "recorded": "number of recorded trials of the sweep, night or cell",
    "ok": "trials that ended well",
    "failed": "trials that did not end well",
    "first_started_at": "when the first trial started, UTC",
    "last_ended_at": "when the last trial ended, UTC",
}
SIDES = {"candidate": ("baseline", None), "on": ("off", "with on"), "frozen": ("off", "frozen")}
"""The other side from which each side takes a column's meaning. A text, if any, is used instead."""
ENDS = {"low": "lower", "high": "upper"}


def meaning(question: NamedQuery, column: str) -> str | None:
    """Return what a column of the answer means; None if nothing explains it."""
    for known in (question.columns, SHARED, _stored_meanings()):
        if column in known:
            return known[column]
    if end := ENDS.get(column.rpartition("_")[2]):
        return f"{end} end of its 95% interval"
    side, _, what = column.partition("_")
    if side not in SIDES:
        return None
    other, words = SIDES[side]
    text = meaning(question, f"{other}_{what}")
    return text and (words or re.sub(rf"\b{other}\b", side, text))


def columns_explained(question: NamedQuery) -> dict[str, str]:
    """Return what each column of the answer means; the text is empty if nothing explains it."""
    with TemporaryDirectory() as empty, open_database(open_store(empty)) as database:
        names = database.ask(question).column_names
    return {name: meaning(question, name) or "" for name in names}


def _stored_meanings() -> dict[str, str]:
    return {
        field.name: field.metadata[b"meaning"].decode()
        for field in arrow_schema()
        if field.metadata
    }
