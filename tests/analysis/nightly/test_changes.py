import numpy as np
import pytest

from cudnn_sweep.analysis.nightly.changes import change_points
from cudnn_sweep.analysis.nightly.metric import PEAK_MEMORY, STEADY_WALL


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def found(logs: np.ndarray) -> list[int]:
    return [point.night_index for point in change_points(list(np.exp(logs)), STEADY_WALL)]


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
    up, down = change_points(nights, STEADY_WALL)
    assert (up.night_index, down.night_index) == (21, 31)
    assert up.ratio == pytest.approx(1.2, rel=0.01) and down.after == pytest.approx(2.0, rel=0.01)


def test_what_is_below_the_least_effect_is_no_change() -> None:
    assert change_points([1e9] * 20 + [1.02e9] * 20, PEAK_MEMORY) == []
    assert [point.ratio for point in change_points([1e9] * 20 + [2e9] * 20, PEAK_MEMORY)] == [
        pytest.approx(2.0)
    ]
    assert change_points([1e9] * 5, PEAK_MEMORY) == []
