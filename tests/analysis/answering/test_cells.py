"""What each cell shows: the questions `worst_regressions`, `roofline` and `coverage`."""

from dataclasses import replace

import pytest

from cudnn_sweep.analysis.storing.schema import RunRecord
from tests.analysis.conftest import Ask, make_pair, make_record


def test_the_worst_of_all_is_what_fails(ask: Ask) -> None:
    lost = _cell("lost", 10.0, 5.0)
    trials = [replace(each, status="out_of_memory") if each.benchmark else each for each in lost]
    rows = ask("worst_regressions", [*_cell("slow", 10.0, 15.0), *trials])
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


def _cell(name: str, baseline_ms: float, candidate_ms: float, **changes: object) -> list[RunRecord]:
    """Three blocks of a cell."""
    return [
        replace(each, trial_id=f"{name}-{each.trial_id}", cell_id=f"cell-{name}")
        for block in range(3)
        for each in make_pair(block, baseline_ms, candidate_ms, **changes)
    ]
