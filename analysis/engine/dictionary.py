"""Finds the meanings of columns. Some follow from the first or last word of a column's name."""

import re
from tempfile import TemporaryDirectory

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.engine.queries import NamedQuery
from cudnn_sweep.analysis.store.schema import arrow_schema
from cudnn_sweep.analysis.store.store import open_store

SHARED = {
    "contrast": "setting that differs, with its values in the baseline and in the candidate",
    "other_settings": "settings that are equal in baseline and candidate",
    "settings": "settings of the config",
    "loop_kind": "kind of loop, closed or open; mixed if baseline and candidate differ",
    "in_turns": "whether the processes of a block took turns",
    "blocks": "number of blocks whose trials ended well and can be compared",
    "split_blocks": "number of blocks left out: trials ran on different slots or in two launches",
    "doubtful_blocks": "number of blocks left out: a trial shared its GPU, or both were throttled",
    "unpaired_blocks": "number of blocks left out because a trial failed or is missing",
    "recorded_blocks": "number of blocks with trials of both configs, including blocks left out",
    "at_most": "largest number of blocks that the sweep may run; null if the number is fixed",
    "block_s": "mean duration of a block of the cell, in seconds",
    "blocks_needed": "number of further blocks that probably decide the verdict; null above 1,000",
    "error_share": "share of the error rate for this interim analysis; 1 if there is none",
    "baseline_failed": "number of blocks in which the trial of the baseline failed",
    "baseline_processes": "number of processes of the baseline",
    "doubtful_processes": "number of processes left out because the GPU was throttled or shared",
    "baseline_ms": "geometric mean wall time of an iteration of the baseline, in ms",
    "ratio": "wall time of the candidate divided by that of the baseline, geometric mean",
    "wall_verdict": "verdict on wall time: helps, hurts, equivalent, inconclusive, fails, "
    "no_effect or not_measured; at first also so_far_faster, so_far_slower or undecided",
    "wall_in_words": "wall_verdict with details, such as 'so far faster (2 blocks)'",
    "surely": "faster or slower if the interval of the ratio excludes 1; otherwise null",
    "baseline_device_ms": "geometric mean device time of an iteration of the baseline, in ms",
    "device_ratio": "device time of the candidate divided by that of the baseline, geometric mean",
    "device_verdict": "verdict on device time, like wall_verdict; null if a device time is unknown",
    "no_effect_reason": "reason why the setting cannot have an effect: no_cuda, not_cudnn, "
    "flag_not_consulted or miopen; null if it can have one",
    "compute_cache": "state of CUDA's kernel cache on disk when trials started: empty, warm, "
    "disabled, or none without CUDA",
    "baseline_peak_reserved_bytes": "peak memory that PyTorch reserved in trials of the baseline",
    "baseline_steady_reserved_bytes": "peak memory reserved while the baseline was timed",
    "baseline_results": "number of different results of the baseline from equal inputs and weights",
    "blocks_with_same_bits": "number of blocks in which both configs computed the same bits",
    "reproducibility": "whether all processes compute the same bits: already (with both configs), "
    "gained (only with the candidate), lost (only with the baseline) or not gained (with neither)",
    "other_kernels_share": "share of blocks in which baseline and candidate ran different kernels",
    "other_kernels_device_ratio": "device ratio over the blocks in which the kernels differ",
    "same_kernels_device_ratio": "device ratio over the blocks in which the kernels are the same",
    "headline": "changes of wall and device time if the loop is CPU-bound and the verdicts differ; "
    "otherwise null",
    "wall_statistical_verdict": "verdict of the statistical test alone",
    "device_statistical_verdict": "verdict of the statistical test alone",
    "memory_ratio": "peak reserved memory of the candidate divided by that of the baseline",
    "memory_verdict": "verdict on memory_ratio; helps means that the candidate needs less memory",
    "baseline_peak_allocated_bytes": "peak memory of tensors and workspaces of the baseline",
    "baseline_workspace_bytes": "largest workspace of a plan in the logs of the baseline",
    "blocks_with_bits": "number of blocks in which the bits of both configs are known",
    "baseline_cell_id": "cell_id of the baseline",
    "night": "sweep_id of the night",
    "metric": "measured quantity; times are in ms, memory is in bytes, and the error is relative",
    "planned": "number of trials in the plan of the sweep",
    "recorded": "number of recorded trials of the sweep, night or cell",
    "ok": "number of trials that ended well",
    "failed": "number of trials that did not end well",
    "not_begun": "number of the sweep's planned cells without a recorded trial",
    "surroundings": "name of the code that surrounds a step; other questions call it `state`",
    "first_started_at": "time at which the first trial started, in UTC",
    "last_ended_at": "time at which the last trial ended, in UTC",
}
SIDES = {"candidate": ("baseline", None), "on": ("off", "with on"), "frozen": ("off", "frozen")}
"""Another side with the same columns, and a text that explains the columns of this side."""
ENDS = {"low": "lower", "high": "upper"}


def meaning(question: NamedQuery, column: str) -> str | None:
    """Return the meaning of a column, or None if it is unknown."""
    stored = {field.name: field.metadata[b"meaning"].decode() for field in arrow_schema()}
    for known in (question.columns, SHARED, stored):
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
    """Return the meaning of each column of a question. An unknown meaning is an empty text."""
    with TemporaryDirectory() as empty, open_database(open_store(empty)) as database:
        names = database.ask(question).column_names
    return {name: meaning(question, name) or "" for name in names}
