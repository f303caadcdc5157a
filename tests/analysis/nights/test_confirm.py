import numpy as np
import pytest
from scipy import stats

from cudnn_sweep.analysis.nights.detect import (
    LOOKS,
    MOST_NIGHTS,
    confirm,
    confirm_by_nights,
    confirm_words,
    judge_nights,
    smallest_step,
)
from cudnn_sweep.analysis.nights.series import PEAK_MEMORY, STEADY_WALL, t_above, t_quantile

STEP = np.log(1.05)


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("df", [1, 2, 3, 4, 5, 11, 23, 47, 100])
def test_students_t_is_that_of_scipy(df: int) -> None:
    for t in (0.0, 0.3, 1.7, 4.0, 12.0):
        assert t_above(t, df) == pytest.approx(stats.t.sf(t, df), rel=1e-6, abs=1e-14)
    for above in (0.5, 0.05, 0.0125, 1e-4):
        assert t_quantile(above, df) == pytest.approx(stats.t.isf(above, df), rel=1e-7, abs=1e-9)


def test_pairs_are_judged_by_the_t_test_against_the_least_effect(
    generator: np.random.Generator,
) -> None:
    for ratios in STEP + 0.02 * generator.standard_normal((50, 12)):
        found = confirm(list(ratios), 0.03)
        above = stats.ttest_1samp(ratios, np.log(1.03), alternative="greater").pvalue
        below = stats.ttest_1samp(ratios, np.log(1.03), alternative="less").pvalue
        assert (found.state == "confirmed") == (above < LOOKS[12])
        assert (found.state == "refuted") == (below < 0.05)
        interval = stats.t.interval(0.95, 11, ratios.mean(), stats.sem(ratios))
        assert (found.low, found.high) == pytest.approx(tuple(np.exp(interval)))


def test_pairs_that_settle_nothing_ask_for_more() -> None:
    assert confirm([], 0.03).more_blocks == min(LOOKS)
    assert confirm([STEP], 0.03).more_blocks == min(LOOKS) - 1
    doubtful = [0.1, -0.02] * 3
    assert (confirm(doubtful, 0.03).state, confirm(doubtful, 0.03).more_blocks) == ("undecided", 6)
    given_up = confirm([0.1, -0.02] * 24, 0.03)
    assert (given_up.state, given_up.more_blocks) == ("undecided", 0)


def test_pairs_of_the_same_kernels_confirm_what_other_choices_hide() -> None:
    ratios = [0.05, 0.06, 0.15, 0.055, -0.05, 0.052, 0.058]
    alike = [True, True, False, True, False, True, True]
    found = confirm(ratios, 0.03, alike)
    assert (found.state, found.blocks, found.more_blocks) == ("confirmed", 5, 0)
    assert found.ratio == pytest.approx(np.exp(0.055), rel=1e-3)
    without = confirm(ratios, 0.03)
    assert (without.state, without.blocks) == ("undecided", 7)
    assert confirm(ratios, 0.03, [*alike[:-1], False]) == without, "too few of them"


def test_pairs_that_are_all_equal_are_settled_at_once() -> None:
    assert confirm([0.7] * 2, 0.03).state == "confirmed"
    assert confirm([0.0] * 2, 0.03).state == "refuted"
    assert confirm([-0.7] * 2, 0.03).state == "refuted", "better is not worse"


def test_a_wrong_confirmation_at_just_the_least_effect_is_rare(
    generator: np.random.Generator,
) -> None:
    ratios = np.log(1.03) + 0.03 * generator.standard_normal((1000, max(LOOKS)))
    assert sum(LOOKS.values()) == pytest.approx(0.05)
    wrong = sum(
        any(confirm(list(r[:look]), 0.03).state == "confirmed" for look in LOOKS) for r in ratios
    )
    assert wrong <= stats.binom.isf(1e-3, 1000, 0.05)


def by_nights(before: list[float], since: list[float]) -> str:
    nights = list(2.0 * np.exp([*before, *since]))
    return confirm_by_nights(nights, len(before), STEADY_WALL).state


def test_nights_confirm_once_they_agree() -> None:
    before = list(0.02 * stats.norm.isf((np.arange(20) + 0.5) / 20))
    assert by_nights(before, [STEP] * 2) == "undecided"
    assert by_nights(before, [STEP] * 10) == "confirmed"
    assert by_nights(before, [STEP, STEP, *[0.0, -0.01, 0.01] * 2]) == "refuted"


def test_two_nights_confirm_an_overwhelming_step_and_a_single_spike_is_none() -> None:
    before = [0.01, -0.01, 0.0, 0.005, -0.005, 0.002]
    assert by_nights(before, [0.1, 0.1]) == "confirmed"
    assert by_nights(before, [0.5, 0.015]) == "undecided"
    assert by_nights(before, [0.03, 0.5, 0.0, 0.0]) == "refuted"
    assert by_nights([*before, 0.3], [0.1, 0.1]) == "undecided", "as odd a night was there before"


@pytest.mark.parametrize("before", [4, 7, 40])
def test_twice_the_memory_is_confirmed_in_two_nights(before: int) -> None:
    found = confirm_by_nights([1e9] * before + [2e9] * 2, before, PEAK_MEMORY)
    assert found.state == "confirmed"
    assert found.ratio == pytest.approx(2.0)


def test_a_step_is_not_refuted_because_its_nights_count_little() -> None:
    quiet = [0.001, -0.001, 0.0, 0.002, -0.002] * 3
    assert by_nights(quiet, [0.04, 0.04]) == "confirmed"
    assert by_nights([*quiet, 0.01], [0.04, 0.04]) == "undecided"
    assert by_nights([*quiet, 0.01], [0.04] * 3) == "confirmed", "a third night like them"


def test_words_are_confirmed_where_most_fresh_ones_differ() -> None:
    assert confirm_words(["b", "b", "a"], "a").state == "confirmed"
    assert confirm_words(["a", "a", "b"], "a").state == "refuted"
    assert confirm_words(["a", "a", "b"], "a", is_strict=True).state == "confirmed"
    assert confirm_words(["a", "a", "a"], "a").state == "refuted"
    assert confirm_words([], "a").state == "undecided"


@pytest.mark.parametrize("noise", [0.03, 0.15])
def test_the_smallest_step_is_found_one_time_in_two(
    generator: np.random.Generator, noise: float
) -> None:
    nights = noise * generator.standard_normal((1000, 30 + MOST_NIGHTS))
    before, since = nights[:, :30], nights[:, 30:]
    recent = [2.0] * 3  # those that are judged are no part of it
    steps = [
        smallest_step([*2.0 * np.exp(each), *recent], STEADY_WALL, (), is_pinned=False)
        for each in before[:200]
    ]
    step = float(np.median([each for each in steps if each is not None]))
    assert 4.5 * 0.35 * noise < np.log1p(step) < 4.5 * 0.4 * noise
    found = judge_nights(before, since + np.log1p(step), STEADY_WALL.min_effect).is_confirmed
    assert found.mean() == pytest.approx(0.5, abs=0.1)


def test_a_quiet_series_could_show_the_least_effect() -> None:
    assert smallest_step([1e9] * 10, PEAK_MEMORY, (), is_pinned=False) == PEAK_MEMORY.min_effect
    assert smallest_step([1e9] * 5, PEAK_MEMORY, (), is_pinned=False) == PEAK_MEMORY.min_effect
    assert smallest_step([1e9] * 4, PEAK_MEMORY, (), is_pinned=False) is None, (
        "one night beside those that are judged"
    )
