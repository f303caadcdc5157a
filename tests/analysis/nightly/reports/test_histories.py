import numpy as np
import pytest

from cudnn_sweep.analysis.nightly.reports.page import levels
from cudnn_sweep.analysis.nightly.series import PEAK_MEMORY, STEADY_WALL


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def found(logs: np.ndarray) -> list[int]:
    return [first for first, _, _ in levels(list(np.exp(logs)), STEADY_WALL)[1:]]


def test_a_step_is_placed_within_a_night_or_two(generator: np.random.Generator) -> None:
    steps = np.where(np.arange(60) >= 40, np.log(1.05), 0)
    places = [found(0.02 * generator.standard_normal(60) + steps) for _ in range(50)]
    near = [[abs(place - 40) <= 2 for place in each] for each in places]
    assert sum(each == [True] for each in near) >= 40, "47 to 49 of 50 with other seeds"


def test_no_change_and_spikes_are_none(generator: np.random.Generator) -> None:
    for _ in range(20):
        logs = 0.02 * generator.standard_normal(60)
        logs[[10, 30, 50]] += 0.3
        assert found(logs) == []


def test_a_level_that_comes_back_has_two_points_and_their_sizes(
    generator: np.random.Generator,
) -> None:
    values = 2.0 * np.exp(0.005 * generator.standard_normal(40))
    values[20:30] *= 1.2
    nights: list[float | None] = [None, *values.tolist()]
    (_, _, before), (up, _, high), (down, last, after) = levels(nights, STEADY_WALL)
    assert (up, down, last) == (21, 31, 40)
    assert [high, after] == pytest.approx([1.2 * float(before), 2.0], rel=0.01)


def test_what_is_below_the_least_effect_is_no_change() -> None:
    assert levels([1e9] * 20 + [1.02e9] * 20, PEAK_MEMORY) == [(0, 39, 1.01e9)]
    (_, last, low), (first, _, high) = levels([1e9] * 20 + [2e9] * 20, PEAK_MEMORY)
    assert (last, first) == (19, 20) and [low, high] == pytest.approx([1e9, 2e9])
    assert levels([1e9] * 2 + [2e9] * 3, PEAK_MEMORY) == [(0, 4, 2e9)], "too few nights"
    assert levels([1e9] * 2, PEAK_MEMORY) == []
