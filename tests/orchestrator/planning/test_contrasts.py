"""Which pairs of a suite's configs the summary compares."""

from cudnn_sweep.orchestrator.planning.contrasts import contrasts_of
from cudnn_sweep.workloads.cells.config import CudnnConfig

OFF, ON = CudnnConfig(), CudnnConfig(benchmark=True)


def test_baseline_has_the_default() -> None:
    for order in ((OFF, ON), (ON, OFF)):
        assert [str(contrast) for contrast in contrasts_of(order)] == ["benchmark: false → true"]


def test_only_pairs_that_differ_in_one_field_are_compared() -> None:
    all_plans = CudnnConfig(benchmark=True, benchmark_limit=0)
    found = [str(contrast) for contrast in contrasts_of((OFF, ON, all_plans))]
    assert found == ["benchmark: false → true", "benchmark_limit: 10 → 0"]


def test_of_two_values_that_are_no_default_the_first_is_the_baseline() -> None:
    few, many = (CudnnConfig(plan_cache_limit=limit) for limit in (1, 100))
    assert [str(contrast) for contrast in contrasts_of((few, many))] == [
        "plan_cache_limit: 1 → 100"
    ]
    assert [str(contrast) for contrast in contrasts_of((OFF, few))] == [
        "plan_cache_limit: null → 1"
    ]
