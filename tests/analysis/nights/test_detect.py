from collections.abc import Sequence

import numpy as np
import pytest

from cudnn_sweep.analysis.nights.detect import (
    FEWEST_NIGHTS,
    MONTH,
    compared_with,
    confirm_by_nights,
    screen,
    screen_words,
)
from cudnn_sweep.analysis.nights.series import (
    AMOUNTS,
    BITS,
    ENGINE,
    ERROR,
    FAILURE,
    LAYOUT,
    MISSING,
    PEAK_MEMORY,
    REPEATS,
    SIGN,
    STEADY_WALL,
    Amount,
)

# About 1% from night to night; its median is 2 ms.
NIGHTS = [2.0, 2.02, 1.98, 2.01, 1.99, 2.03, 1.97, 2.0, 2.02, 1.98, 2.0]


def scaled(factors: list[float | None]) -> list[float | None]:
    return [None if factor is None else 2.0 * factor for factor in factors]


def state(values: Sequence[float | None], metric: Amount = STEADY_WALL) -> str:
    return screen(values, metric).state


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("error", [float("nan"), float("inf")])
def test_an_error_that_is_no_number_is_no_small_one(error: float) -> None:
    nights = [3e-4] * 9 + [error, error]
    assert state(nights, ERROR) == "worse"
    assert confirm_by_nights(nights, 9, ERROR).state == "confirmed"
    assert state([error] * 11, ERROR) == "fine"


def test_two_of_three_nights_make_a_candidate_and_one_does_not() -> None:
    assert state([*NIGHTS]) == "fine"
    assert state([*NIGHTS, 2.2]) == "fine"
    assert state([*NIGHTS, 2.2, 2.2]) == "worse"
    assert state([*NIGHTS, 2.2, 2.0, 2.2]) == "worse"
    assert state([*NIGHTS, 2.2, 2.0, 2.0, 2.2]) == "fine"
    assert state([*NIGHTS, 1.8, 1.8]) == "better"


def test_a_night_that_is_good_again_is_no_candidate() -> None:
    assert state([*NIGHTS, 2.2, 2.2, 2.0]) == "fine"


def test_a_candidate_says_since_when_and_by_how_much() -> None:
    found = screen([*NIGHTS, 2.2, None, 2.0, 2.24, 2.22], STEADY_WALL)
    assert found.state == "worse"
    assert found.first_bad_night_index == len(NIGHTS)
    assert found.before == pytest.approx(2.0)
    assert found.now == pytest.approx(2.21, abs=0.005)
    assert found.ratio == pytest.approx(1.105, abs=0.003)
    assert found.nights == len(NIGHTS) + 1
    past, *_ = compared_with(np.log([NIGHTS[:10]]), min_effect=0.0)
    assert past.line == pytest.approx(1.2 * 1.4826 * 0.01, abs=0.001), "a deviation of 1%"


def test_few_nights_and_a_missing_night_are_no_pass() -> None:
    for nights in range(FEWEST_NIGHTS):
        found = screen(NIGHTS[:nights], STEADY_WALL)
        assert (found.state, found.nights) == ("insufficient_data", nights)
    assert state(NIGHTS[:FEWEST_NIGHTS]) == "fine"
    assert state([*NIGHTS, None]) == "insufficient_data"
    assert state([*NIGHTS[:3], None, None, None, *NIGHTS[3 : FEWEST_NIGHTS - 1]]) == (
        "insufficient_data"
    )


def test_missing_nights_change_nothing_else() -> None:
    with_gaps: list[float | None] = [None, *NIGHTS[:4], None, None, *NIGHTS[4:], 2.2, None, 2.2]
    found, whole = screen(with_gaps, STEADY_WALL), screen([*NIGHTS, 2.2, 2.2], STEADY_WALL)
    assert (found.state, found.before, found.now) == (whole.state, whole.before, whole.now)
    assert with_gaps[found.first_bad_night_index or 0] == 2.2


def test_a_constant_series_is_held_to_the_least_effect() -> None:
    assert state([1e9] * 10, PEAK_MEMORY) == "fine"
    assert state([1e9] * 8 + [1.01e9] * 2, PEAK_MEMORY) == "fine"
    found = screen([1e9] * 8 + [2e9] * 2, PEAK_MEMORY)
    assert found.state == "worse"
    assert found.ratio == pytest.approx(2.0)


def test_zeros_and_trifles_have_a_ratio() -> None:
    assert state([0.0] * 9, ERROR) == "fine"
    assert state([0.0] * 8 + [1e-9] * 2, ERROR) == "fine"
    assert state([0.0] * 8 + [1e-6] * 2, ERROR) == "worse"


@pytest.mark.parametrize("metric", AMOUNTS)
def test_every_amount_has_its_least_effect(metric: Amount) -> None:
    base = 1000 * metric.least
    worse = base * (1 + metric.min_effect)
    assert state([base] * 8 + [worse] * 2, metric) == "worse"
    assert state([base] * 8 + [base * (1 + metric.min_effect / 2)] * 2, metric) == "fine"


def test_what_was_just_won_is_not_lost_unseen() -> None:
    won = scaled([*[1.0, 1.01, 0.99] * 8, *[0.9, 0.91, 0.89] * 3])
    assert state(won) == "better"
    found = screen([*won, *scaled([1.0, 1.01, 0.99])], STEADY_WALL)
    assert (found.state, found.first_bad_night_index) == ("worse", len(won))
    assert found.before == pytest.approx(1.8)


def test_a_pinned_baseline_stays_what_is_compared_with() -> None:
    creeping = list(2.0 * np.exp(0.001 * np.arange(3 * MONTH)))
    found = screen(creeping, STEADY_WALL)
    assert found.state == "worse", "than in the first month"
    assert found.before == pytest.approx(np.median(creeping[:MONTH]))
    assert screen(creeping[-MONTH:], STEADY_WALL).state == "fine", "a month is behind by 1.6%"
    found = screen(creeping, STEADY_WALL, is_pinned=True)
    assert (found.state, found.nights) == ("worse", MONTH)
    assert found.before == pytest.approx(np.median(creeping[:MONTH]))


def test_another_word_is_news_in_two_of_three_nights() -> None:
    usual = ["a"] * 12
    assert screen_words(usual, ENGINE).state == "fine"
    assert screen_words([*usual, "b"], ENGINE).state == "fine"
    found = screen_words([*usual, "b", None, "c"], ENGINE)
    assert (found.state, found.before, found.now) == ("different", "a", "c")
    assert found.first_bad_night_index == 12
    assert screen_words([*usual, "b", "b", "a"], ENGINE).state == "fine"
    assert screen_words(usual[:5], ENGINE).state == "insufficient_data"
    assert screen_words([*usual, None], ENGINE).state == "insufficient_data"


def test_other_kernels_or_bits_of_new_software_are_news_on_its_first_night_alone() -> None:
    usual = ["a"] * 12
    for metric in (ENGINE, BITS):
        new = ["old"] * 12 + ["new"] * 3
        found = screen_words([*usual, "b"], metric, softwares=new[:13])
        assert (found.state, found.is_news, found.before, found.now) == (
            "different",
            True,
            "a",
            "b",
        )
        assert screen_words([*usual, "b", "b", "b"], metric, softwares=new).state == "fine"
        since_then = ["old"] * 13 + ["new"]
        found = screen_words([*usual, "b", "b"], metric, softwares=since_then)
        assert found.state == "fine", "as last night"
        assert screen_words([*usual, "a"], metric, softwares=new[:13]).state == "fine"
    since_long = ["old"] * 4 + ["new"] * 10
    assert screen_words([*usual, "b", "b"], BITS, softwares=since_long).state == "fine"


def test_bits_that_stop_repeating_are_news_at_once_if_they_always_did() -> None:
    usual = ["repeat"] * 6
    found = screen_words([*usual, "differ within a process"], REPEATS)
    assert (found.state, found.first_bad_night_index) == ("worse", 6)
    assert screen_words([*usual[:5], "differ"], REPEATS).state == "insufficient_data"
    never = screen_words([*usual, "differ", "repeat", "differ"], REPEATS)
    assert (never.state, never.could_show) == ("fine", False)


def test_one_night_of_new_software_is_enough_far_beyond_the_oddest_one() -> None:
    for step, shown in ((1.1, "fine"), (1.8, "worse")):
        assert screen([*NIGHTS, 2.0 * step], STEADY_WALL, is_new=True).state == shown
        assert screen([*NIGHTS, 2.0 * step], STEADY_WALL).state == "fine"
    assert confirm_by_nights([*NIGHTS, 3.6], len(NIGHTS), STEADY_WALL).state == "confirmed"
    odd = confirm_by_nights([*NIGHTS, 2.0], len(NIGHTS), STEADY_WALL)
    assert (odd.state, odd.blocks) == ("undecided", 1)


def test_a_word_that_comes_and_goes_is_no_news() -> None:
    assert screen_words([*"aabaababaa", "b", "b"], ENGINE).state == "fine"


def test_another_choice_is_no_news_of_a_search_that_keeps_choosing_anew() -> None:
    chosen = ["a", "b", "a", "c", "d", "a", "e", "a"]
    assert screen_words([*chosen, "f", "a", "g"], ENGINE).state == "fine"
    twice = ["a"] * 11 + ["b"]
    assert screen_words([*twice, "f", "f", "f"], ENGINE).state == "fine", "drawn by chance"
    upgraded = ["old"] * 11 + ["new"] * 4
    kept = screen_words([*twice, "f", "f", "f"], ENGINE, softwares=upgraded)
    assert kept.state == "different", "each software had one word"
    signs = ["helps"] * 4 + ["equivalent"]
    assert screen_words([*signs, "hurts", "hurts", "hurts"], SIGN).state == "different"


def test_a_night_that_cannot_tell_the_sign_does_not_count() -> None:
    nights = ["helps", "inconclusive"] * 7 + ["hurts", "inconclusive", "hurts"]
    assert screen_words(nights, SIGN).state == "different"
    assert screen_words(nights[:-1], SIGN).state == "insufficient_data"


def test_failures_and_missing_cells_are_news_at_once_until_they_are_usual() -> None:
    found = screen_words(["ok", "ok", "error"], FAILURE)
    assert (found.state, found.first_bad_night_index) == ("worse", 2)
    assert screen_words(["present", "missing"], MISSING).state == "worse"
    assert screen_words(["missing"], MISSING).state == "insufficient_data"
    assert screen_words(["error"] * 3 + ["ok"], FAILURE).state == "better"
    assert screen_words(["ok"] + ["error"] * 3, FAILURE).state == "fine"


def test_a_layer_that_begins_to_lose_its_layout_is_found_on_its_first_night() -> None:
    found = screen_words([*["none"] * 6, "norm (InstanceNorm3d): clone"], LAYOUT)
    assert (found.state, found.first_bad_night_index) == ("worse", 6)
    assert screen_words(["norm: clone"] * 6 + ["none"], LAYOUT).state == "better"
