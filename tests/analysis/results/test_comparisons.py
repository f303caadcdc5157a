"""Between cells: `axis_effect`, and `transfers`."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from cudnn_sweep.analysis.errors import QueryError
from cudnn_sweep.analysis.store.schema import RunRecord
from tests.analysis.conftest import Ask, make_pair, processes

Times = list[float]

SLOW, FAST = [10.0, 10.4, 9.8, 10.1], [5.0, 5.1, 4.9]


def cell(name: str, times_ms: Times, **changes: object) -> list[RunRecord]:
    return processes(name, times_ms, **{"cell_id": f"cell-{name}"} | changes)


@pytest.mark.slow
def test_an_unpaired_comparison_is_welchs_on_logarithms(ask: Ask) -> None:
    (row,) = ask(
        "axis_effect",
        [*cell("a", SLOW, precision="fp32"), *cell("b", FAST, precision="bf16")],
        baseline="fp32",
    )
    b, c = np.log(SLOW), np.log(FAST)
    exact = stats.ttest_ind(c, b, equal_var=False)
    df, se = np.floor(exact.df), (c.mean() - b.mean()) / exact.statistic
    assert exact.df != df
    low, high = stats.t.interval(0.95, df, c.mean() - b.mean(), se)
    assert row["ratio"] == pytest.approx(np.exp(c.mean() - b.mean()))
    assert row["device_ratio"] == pytest.approx(np.exp(c.mean() - b.mean()))
    assert row["ratio_low"] == pytest.approx(np.exp(low), rel=1e-6)
    assert row["ratio_high"] == pytest.approx(np.exp(high), rel=1e-6)
    assert (row["wall_verdict"], row["device_verdict"]) == ("helps", "helps")
    assert (row["baseline_processes"], row["candidate_processes"]) == (4, 3)
    assert (row["baseline_ms"], row["candidate_ms"]) == pytest.approx(
        (np.exp(b.mean()), np.exp(c.mean()))
    )


def test_one_process_is_no_verdict(ask: Ask) -> None:
    (row,) = ask(
        "axis_effect",
        [*cell("a", SLOW, precision="fp32"), *cell("b", [5.0], precision="bf16")],
        baseline="fp32",
    )
    assert (row["wall_verdict"], row["ratio_low"]) == ("inconclusive", None)
    assert row["ratio"] == pytest.approx(5 / np.exp(np.log(SLOW).mean()))


def test_a_contrast_goes_from_the_usual_value_to_the_other(ask: Ask) -> None:
    usual, other = cell("a", SLOW, layout="contiguous"), cell("b", FAST, layout="channels_last")
    (row,) = ask("axis_effect", [*usual, *other], axis="layout")
    assert (row["contrast"], row["wall_verdict"]) == ("layout: contiguous → channels_last", "helps")


def test_cells_that_differ_in_more_are_not_compared(ask: Ask) -> None:
    differences: list[dict[str, object]] = [
        {"problem": "another"},
        {"kernel_size": [5, 5]},
        {"regime": "cycle"},
        {"layout": "channels_last"},
        {"benchmark": True},
        {"software_hash": "software-b"},
        {"loop_kind": "open"},
        {"state": "flush"},
        {"model_arguments": {"width": "2"}},
    ]
    trials = cell("a", SLOW, precision="fp32")
    for number, difference in enumerate(differences):
        trials += cell(f"{number}", FAST, precision="bf16", **difference)
    assert ask("axis_effect", trials) == []


def test_of_open_loops_only_the_steps_that_both_made_count(ask: Ask) -> None:
    """bf16 takes half the time, so that its budget let it come to larger shapes."""
    loop = {"loop_kind": "open"}
    short = loop | {"steady_iterations": 2, "steady_wall_samples_ms": [9.0, 11.0]}
    long = loop | {"steady_iterations": 4, "steady_wall_samples_ms": [4.5, 5.5, 20.0, 40.0]}
    slow = cell("a", [10.0, 10.0], precision="fp32", **short)
    fast = cell("b", [17.5, 17.5], precision="bf16", **long)
    (row,) = ask("axis_effect", [*slow, *fast], baseline="fp32")
    assert (row["ratio"], row["wall_verdict"]) == (pytest.approx(0.5), "helps")
    assert (row["baseline_ms"], row["candidate_ms"]) == (pytest.approx(10), pytest.approx(5))


def test_device_times_of_two_sources_are_not_compared(ask: Ask) -> None:
    profiled = cell("b", FAST, precision="bf16", steady_device_source="profiler")
    slow = cell("a", SLOW, precision="fp32")
    (row,) = ask("axis_effect", [*slow, *profiled], baseline="fp32")
    assert (row["wall_verdict"], row["device_verdict"]) == ("helps", None)
    assert (row["device_ratio"], row["candidate_device_ms"]) == (None, None)


@pytest.mark.slow
def test_what_carries_over_between_gpus_is_counted_and_what_does_not_is_told(ask: Ask) -> None:
    ratios = {"helps": (0.8, 0.8), "turns": (0.8, 1.0), "open": (0.8, None), "hurts": (1.2, 1.3)}
    trials = [
        replace(record, kernels_hash=kernels)
        for problem, of_gpus in ratios.items()
        for gpu, ratio in zip("AB", of_gpus, strict=True)
        for block in range(4)
        for record in make_pair(
            block,
            10 + block / 1000,
            10 * (ratio or 0.5 + block / 3) + block / 2000,
            problem=problem,
            gpu=gpu,
            cell_id=f"{problem}-{gpu}",
            sweep_id=f"{problem}-{gpu}",
            env_hash=gpu,
            launch_bound=False,
        )
        for kernels in ("other" if record.benchmark and (problem, gpu) == ("turns", "B") else "k",)
    ]
    rows = ask("transfers", trials)
    shares = {row["what"]: (row["carried"], row["cells"]) for row in rows if row["a"] is None}
    assert shares["verdict"] == (2, 3)
    assert shares["baseline choice"] == (4, 4)
    assert shares["candidate choice"] == (3, 4)
    assert "baseline bits" not in shares, "each model has inputs of its own"
    (row,) = (row for row in rows if row["what"] == "verdict" and row["a"] is None)
    ends = stats.binomtest(2, 3).proportion_ci(method="exact")
    assert (row["share_low"], row["share_high"]) == pytest.approx((ends.low, ends.high), rel=2e-3)
    (turned,) = (row for row in rows if row["a"] is not None)
    assert (turned["cell_id"], turned["why"]) == ("turns-A", "kernels")
    assert (turned["a"], turned["b"]) == ("helps (0.800)", "equivalent (1.000)")
    with pytest.raises(QueryError, match="between: found host, allowed: gpu"):
        ask("transfers", [], between="host")
