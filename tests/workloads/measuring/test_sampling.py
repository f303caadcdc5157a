import random
from collections.abc import Callable
from statistics import median, stdev

import pytest

from cudnn_sweep.workloads.measuring.sampling import (
    LEAST_S,
    MIN_SAMPLES,
    Sampled,
    median_error,
    stop_reason,
)


def test_error_of_the_median_is_what_repetition_shows() -> None:
    """Against the spread of medians over many repetitions, for a normal and for a skewed law."""
    draw = random.Random(1)
    laws: list[Callable[[], float]] = [
        lambda: draw.gauss(10, 1),
        lambda: 10 + draw.expovariate(1.0),
    ]
    for law in laws:
        runs = [[law() for _ in range(40)] for _ in range(2000)]
        truth = stdev(median(run) for run in runs)
        estimates = [median_error(run) * median(run) for run in runs]
        assert median(estimates) == pytest.approx(truth, rel=0.15)


def test_outliers_do_not_widen_the_error() -> None:
    calm = [10.0, 10.1, 9.9, 10.0, 10.1, 9.9, 10.0, 10.1, 9.9, 10.0, 10.05]
    assert median_error([*calm, 500.0]) < 2 * median_error(calm)
    assert median_error([*calm, 500.0]) == median_error([*calm, 11.0])


def test_sampling_ends_when_precise_or_when_time_is_up() -> None:
    even = [1.0] * MIN_SAMPLES
    assert stop_reason(even, 0.4, budget_s=1.0, error=0.01) == "precision"
    assert stop_reason(even, LEAST_S / 2, budget_s=1.0, error=0.01) is None
    assert stop_reason(even[1:], 0.4, budget_s=1.0, error=0.01) is None
    assert stop_reason([1.0, 2.0, 1.5, 1.2, 1.9], 0.4, budget_s=1.0, error=0.01) is None
    assert stop_reason([1.0], 1.0, budget_s=1.0, error=0.01) == "budget"


def test_quantiles_lie_between_the_samples() -> None:
    sampled = Sampled(samples_ms=[4.0, 1.0, 3.0, 2.0, 5.0], iterations=5, stop="budget")
    assert sampled.median_ms == 3.0
    assert sampled.quantile_ms(0.1) == pytest.approx(1.4)
    assert sampled.quantile_ms(0.9) == pytest.approx(4.6)
    assert Sampled(samples_ms=[1.0], iterations=1, stop="budget").error is None
