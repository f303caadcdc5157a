"""What each cell shows: by_shape_regime, worst_regressions, launch_bound, roofline, coverage,
environment.
"""

from dataclasses import replace

import pytest

from cudnn_sweep.analysis.storing.schema import RunRecord
from tests.analysis.conftest import Ask, make_pair, make_record


def test_regimes_of_a_problem_follow_each_other_with_the_fixed_shape_first(ask: Ask) -> None:
    trials = _cell("many", 10.0, 30.0, regime="lengths", distinct_shapes=8)
    trials += _cell("few", 10.0, 10.0, regime="cycle", distinct_shapes=2)
    trials += _cell("one", 10.0, 5.0)
    trials += _cell("else", 10.0, 5.0, problem="zzz", regime="cycle")
    rows = ask("by_shape_regime", trials)
    assert [(row["problem"], row["regime"]) for row in rows] == [
        ("vgg_256_56", "fixed"),
        ("vgg_256_56", "cycle"),
        ("vgg_256_56", "lengths"),
        ("zzz", "cycle"),
    ]
    verdicts = [row["wall_verdict"] for row in rows]
    assert verdicts == ["helps", "equivalent", "hurts", "helps"]
    assert [row["ratio_when_fixed"] for row in rows] == [pytest.approx(0.5)] * 3 + [None]
    assert [row["gain_ms"] for row in rows] == pytest.approx([5.0, 0.0, -20.0, 5.0])
    assert dict(rows[0]["regime_parameters"] or []) == {"batch": 64.0}  # type: ignore[call-overload]
    only = ask("by_shape_regime", [], problem="zzz")
    assert [row["problem"] for row in only] == ["zzz"]


def test_the_worst_regressions_are_those_that_hurt_in_either_time(ask: Ask) -> None:
    trials = _cell("slow", 10.0, 15.0)
    trials += _cell("fine", 10.0, 5.0)
    trials += _cell("same", 10.0, 10.0)
    hidden = _cell("hidden", 10.0, 10.0, kernels_hash="same")
    trials += [replace(each, steady_device_ms=18.0) if each.benchmark else each for each in hidden]
    rows = ask("worst_regressions", trials)
    assert [row["cell_id"] for row in rows] == ["cell-hidden", "cell-slow"]
    assert [row["regression"] for row in rows] == [pytest.approx(2.0), pytest.approx(1.5)]
    assert [row["lost_ms"] for row in rows] == pytest.approx([0.0, 5.0])
    assert [row["other_kernels_share"] for row in rows] == [0.0, 1.0]
    (row,) = ask("worst_regressions", [], rows=1)
    assert row["cell_id"] == "cell-hidden"


def test_the_worst_of_all_is_what_fails(ask: Ask) -> None:
    lost = _cell("lost", 10.0, 5.0)
    trials = [replace(each, status="out_of_memory") if each.benchmark else each for each in lost]
    rows = ask("worst_regressions", [*_cell("slow", 10.0, 15.0), *trials])
    assert [(row["cell_id"], row["wall_verdict"]) for row in rows] == [
        ("cell-lost", "fails"),
        ("cell-slow", "hurts"),
    ]


def test_a_loop_that_waits_for_the_cpu_has_a_gap(ask: Ask) -> None:
    times = [(10.0, 4.0, True), (10.0, 5.0, True), (10.0, 9.5, False)]
    trials = [
        make_record(
            trial_id=str(number), steady_wall_ms=wall, steady_device_ms=device, launch_bound=bound
        )
        for number, (wall, device, bound) in enumerate(times)
    ]
    trials.append(make_record(trial_id="unknown", steady_device_ms=None, launch_bound=None))
    (row,) = ask("launch_bound", trials)
    assert (row["processes"], row["wall_ms"], row["device_ms"]) == (3, 10.0, 5.0)
    assert (row["launch_gap_ms"], row["launch_gap_share"]) == (5.0, 0.5)
    assert row["wall_over_device"] == 2.0
    assert row["launch_bound_share"] == pytest.approx(2 / 3)
    assert row["launch_bound"] is True


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


def test_coverage_is_of_each_sweep_and_cell(ask: Ask) -> None:
    trials = make_pair(0, 10.0, 5.0) + make_pair(0, 10.0, 5.0, sweep_id="night-2")
    trials += [replace(each, trial_id=f"b-{each.trial_id}", cell_id="b") for each in trials[:2]]
    rows = ask("coverage", trials)
    assert [(row["sweep_id"], row["cell_id"]) for row in rows] == [
        ("night-1", "b"),
        ("night-1", "cell-a"),
        ("night-2", "cell-a"),
    ]
    assert [row["sweep_recorded"] for row in rows] == [4, 4, 2]


def test_the_environment_is_told_by_host_hardware_and_software(ask: Ask) -> None:
    trials = [
        make_record(trial_id="a", calibration_copy_gbps=4000.0, warnings=["power_capped"]),
        make_record(trial_id="b", calibration_copy_gbps=4200.0, slot="GPU-1", sm_clock_low_mhz=900),
        make_record(trial_id="c", calibration_copy_gbps=None, warnings=["throttled"], commit="abc"),
        make_record(trial_id="d", host="node-1", warnings=None),
    ]
    one, other = ask("environment", trials)
    assert (one["host"], one["trials"], one["slots"], one["sweeps"]) == ("node-0", 3, 2, 1)
    assert (one["power_capped"], one["throttled"], one["shared_gpu"]) == (1, 1, 0)
    assert (one["copy_gbps"], one["sm_clock_low_mhz"], one["commits"]) == (4100.0, 900, ["abc"])
    assert (other["host"], other["trials"], other["throttled"]) == ("node-1", 1, 0)


def _cell(name: str, baseline_ms: float, candidate_ms: float, **changes: object) -> list[RunRecord]:
    """Three blocks of a cell."""
    return [
        replace(each, trial_id=f"{name}-{each.trial_id}", cell_id=f"cell-{name}")
        for block in range(3)
        for each in make_pair(block, baseline_ms, candidate_ms, **changes)
    ]
