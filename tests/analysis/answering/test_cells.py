"""The questions `roofline`, `coverage`, `model_step` and `time_shares`."""

from dataclasses import replace
from typing import Any

import pytest

from cudnn_sweep.analysis.answering.verdicts import TimeShare, time_shares
from cudnn_sweep.analysis.storing.schema import RunRecord
from cudnn_sweep.analysis.storing.store import Store
from tests.analysis.conftest import Ask, in_cell, make_pair, make_record


def test_the_worst_of_all_is_what_fails(ask: Ask) -> None:
    lost = _cell("lost", 10.0, 5.0)
    trials = [replace(each, status="out_of_memory") if each.benchmark else each for each in lost]
    slow, fast = _cell("slow", 10.0, 15.0), _cell("fast", 10.0, 9.0)
    rows = ask("helps_or_hurts", [*_cell("slower", 10.0, 12.0), *slow, *fast, *trials], worst=2)
    assert [(row["cell_id"], row["wall_verdict"]) for row in rows] == [
        ("cell-lost", "fails"),
        ("cell-slow", "hurts"),
    ]


@pytest.mark.parametrize(("convolution_bytes", "limit"), [(10**9, "compute"), (10**11, "memory")])
def test_a_roofline_is_limited_by_what_takes_longer(
    ask: Ask, convolution_bytes: int, limit: str
) -> None:
    trials = [
        make_record(
            trial_id=str(number),
            convolution_flops=2 * 10**12,
            convolution_bytes=convolution_bytes,
            steady_device_ms=ms,
            roofline_ms=2.0,
            roofline_share=2.0 / ms,
            calibration_matmul_tflops=1000.0,
            calibration_copy_gbps=4000.0,
        )
        for number, ms in enumerate([4.0, 5.0, 8.0])
    ]
    trials.append(make_record(trial_id="unknown", roofline_share=None))
    (row,) = ask("roofline", trials)
    assert (row["processes"], row["timed_ms"], row["roofline_share"]) == (3, 5.0, 0.4)
    assert (row["headroom_ms"], row["limited_by"]) == (3.0, limit)
    assert row["operations_per_byte"] == pytest.approx(2 * 10**12 / convolution_bytes)
    assert row["achieved_tflops"] == pytest.approx(400)
    assert row["achieved_gbps"] == pytest.approx(convolution_bytes / 5e6)


def test_coverage_counts_blocks_by_why_they_are_of_no_use(ask: Ask) -> None:
    blocks = [make_pair(block, 10.0, 5.0, plan_trials=20) for block in range(6)]
    blocks[1][1] = replace(blocks[1][1], slot="GPU-1")
    blocks[2][0] = replace(blocks[2][0], warnings=["throttled"])
    blocks[3][1] = replace(blocks[3][1], status="timeout")
    del blocks[4][1]
    twin = replace(blocks[5][0], trial_id="twin", twin=1)
    (row,) = ask("coverage", [*(trial for block in blocks for trial in block), twin])
    assert (row["configs"], row["blocks"], row["usable_blocks"]) == (2, 6, 2)
    assert (row["incomplete_blocks"], row["split_blocks"], row["doubtful_blocks"]) == (2, 1, 1)
    assert (row["planned"], row["recorded"], row["missing"]) == (13, 12, 1)
    assert (row["ok"], row["failed"], row["replicates"]) == (11, 1, 4)
    assert (row["sweep_planned"], row["sweep_recorded"]) == (20, 12)


def _cell(name: str, baseline_ms: float, candidate_ms: float, **changes: Any) -> list[RunRecord]:
    """Three blocks of a cell."""
    return [
        in_cell(each, f"cell-{name}", **changes)
        for block in range(3)
        for each in make_pair(block, baseline_ms, candidate_ms)
    ]


def pairs(cell_id: str, problem: str, times: int, off_ms: float, on_ms: float) -> list[RunRecord]:
    own: dict[str, Any] = {
        "problem": problem,
        "occurrences": times,
        "suite": "Net.yaml",
        "steady_device_ms": None,
    }
    return _cell(cell_id, off_ms, on_ms, **own)


def test_convolutions_add_up_by_how_often_a_step_runs_them(ask: Ask) -> None:
    first = pairs("a", "conv1", 1, 10.0, 5.0)
    often = pairs("b", "conv2", 4, 2.0, 3.0)
    (row,) = ask("model_step", [*first, *often])
    assert (row["suite"], row["network"], row["step"]) == ("Net.yaml", "Net.yaml", "all")
    assert (row["convolutions"], row["missing"], row["runs"]) == (2, 0, 5)
    assert row["baseline_ms"] == pytest.approx(10 + 4 * 2)
    assert row["candidate_ms"] == pytest.approx(5 + 4 * 3)
    assert row["ratio"] == pytest.approx(17 / 18)
    assert row["ratio_low"] == row["ratio_high"] == row["ratio"], "the blocks are all alike"
    assert (row["saved_ms"], row["timer"]) == (pytest.approx(1.0), "wall")


def test_precisions_of_one_convolution_are_steps_of_their_own(ask: Ask) -> None:
    usual = pairs("a", "conv1", 2, 10.0, 5.0)
    exact = [replace(trial, precision="fp32") for trial in pairs("b", "conv1", 2, 20.0, 20.0)]
    rows = ask("model_step", [*usual, *exact])
    ratios = {row["step"]: row["ratio"] for row in rows}
    ways = [f"{precision} contiguous batch 64" for precision in (usual[0].precision, "fp32")]
    assert ratios == {ways[0]: pytest.approx(0.5), ways[1]: pytest.approx(1.0)}


def test_a_set_of_problems_that_is_no_network_is_no_step(ask: Ask) -> None:
    assert ask("model_step", pairs("a", "tutorials/rgb256", 1, 10.0, 5.0)) == []
    (row,) = ask("model_step", pairs("b", "resnet50/conv2", 3, 10.0, 5.0))
    assert row["network"] == "resnet50"


PHASES = ("start", "one_time", "build", "cold", "calibration", "steady", "checks", "exit")


def test_every_second_is_in_one_part(store: Store) -> None:
    first = make_record(trial_id="a")
    second = make_record(trial_id="b", log_s=None, steady_s=2.9, process_s=4.0, gap_s=None)
    found = _shares(store, first, second)
    assert set(found) == {*PHASES, "log", "gap", "other"}
    assert sum(share.total_s for share in found.values()) == pytest.approx(2 + 1.5 + 0.01 + 4)
    assert sum(share.share for share in found.values()) == pytest.approx(1)
    steady = found["steady"]
    assert steady.trials == 2
    assert steady.median_s == pytest.approx(1.9)
    assert steady.share == pytest.approx(3.8 / 7.51)
    assert (found["log"].trials, found["log"].total_s, found["log"].median_s) == (1, 1.5, 1.5)
    assert found["other"].total_s == pytest.approx(2 * (2 - 1.96))


def test_a_trial_that_never_answered_counts_as_other(store: Store) -> None:
    unknown = {f"{phase}_s": None for phase in PHASES}
    hung = make_record(status="timeout", process_s=300.0, log_s=None, gap_s=None, **unknown)
    found = _shares(store, hung)
    assert (found["other"].total_s, found["other"].share) == (300.0, 1.0)
    assert (found["steady"].trials, found["steady"].total_s, found["steady"].share) == (0, 0, 0)


def _shares(store: Store, *records: RunRecord) -> dict[str, TimeShare]:
    store.write(*records)
    return {share.part: share for share in time_shares(store)}
