"""The rules of a night one by one: medians of gaps, lines, looks, starts and spans, by small tables."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cudnn_sweep.analysis.nights import candidates
from cudnn_sweep.analysis.nights.candidates import FreshTrials
from cudnn_sweep.analysis.nights.detect import (
    FEWEST_ALIKE,
    FEWEST_NIGHTS,
    LATELY,
    LEAST_NOISE,
    LINE_IN_EFFECT,
    LINE_IN_NOISE,
    MONTH,
    NO_CANDIDATE,
    NORMAL,
    RECENT,
    _candidate_since,
    _noise,
    can_tell,
    compared_with,
    confirm,
    confirm_by_nights,
    confirm_words,
    first_shown,
    judge_nights,
    mended,
    newest,
    screen,
    screen_words,
    smallest_step,
)
from cudnn_sweep.analysis.nights.findings import (
    FEWEST_SERIES,
    Memory,
    _ended,
    _ends,
    _is_confirmed,
    _machine,
    _ran_on,
    _shows,
    are_alike,
    are_most,
    begun_with_most,
)
from cudnn_sweep.analysis.nights.outcome import Acceptance, LeftOut
from cudnn_sweep.analysis.nights.series import (
    BITS,
    ENGINE,
    FAILURE,
    LAYOUT,
    REPEATS,
    SIGN,
    STEADY_WALL,
    NightPoint,
    Series,
    first_measured,
    last_measured,
    medians,
    nights_in,
    typical,
)
from tests.made_up_night import finding_of, key_of, points_of

NAN = np.nan
FIRST = date(2026, 11, 1)


@pytest.mark.parametrize(
    ("row", "median", "nights"),
    [
        ([3.0, 1.0, 2.0], 2.0, 3),
        ([NAN, 4.0, 1.0], 2.5, 2),
        ([NAN, NAN, 7.0], 7.0, 1),
        ([1.0, 2.0, 4.0, 8.0], 3.0, 4),
    ],
)
def test_medians_ignore_gaps(row: list[float], median: float, nights: int) -> None:
    assert medians(np.array([row])).tolist() == [median]
    assert nights_in(np.array([row])).tolist() == [nights]
    assert np.isnan(medians(np.array([[NAN, NAN]]))).all()


def test_the_last_and_first_numbers_are_kept_with_gaps_between() -> None:
    row = np.array([[1.0, NAN, 2.0, 3.0, NAN, 4.0]])
    kept = last_measured(row, 2)[0]
    assert [float(value) for value in kept if not np.isnan(value)] == [3.0, 4.0]
    kept = first_measured(row, 2)[0]
    assert [float(value) for value in kept if not np.isnan(value)] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("numbers", "expected"), [([], None), ([None], None), ([None, 3.0, 1.0], 2.0)]
)
def test_the_typical_number_is_the_median_of_those_there(
    numbers: Sequence[float | None], expected: float | None
) -> None:
    assert typical(numbers) == expected


def test_a_series_is_compared_with_its_month_its_last_nights_and_its_first_month() -> None:
    nights = MONTH + LATELY + RECENT
    logs = np.arange(float(nights))[None]
    month, lately, first = compared_with(logs, 0.03)
    counted = [np.flatnonzero(~np.isnan(past.logs[0])) for past in (month, lately, first)]
    assert [(int(places[0]), len(places)) for places in counted] == [
        (LATELY, MONTH),
        (MONTH, LATELY),
        (0, MONTH),
    ]
    (pinned,) = compared_with(logs, 0.03, is_pinned=True)
    assert np.flatnonzero(~np.isnan(pinned.logs[0])).tolist() == list(range(MONTH))


def test_the_line_is_the_noise_or_a_share_of_the_least_effect() -> None:
    quiet, noisy = [0.0] * 7, [-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3]
    tonight = [0.0] * RECENT
    past = compared_with(np.array([quiet + tonight, noisy + tonight]), 0.03)[0]
    assert past.level.tolist() == [0.0, 0.0]
    assert past.line[0] == pytest.approx(LINE_IN_EFFECT * np.log(1.03))
    assert past.line[1] == pytest.approx(LINE_IN_NOISE * NORMAL * 0.2)
    line = past.line[0]
    around = np.array([[line, line * 1.01, -line, -line * 1.01]] * 2)
    assert past.beyond(around, 1.0)[0].tolist() == [False, True, False, False]
    assert past.beyond(around, -1.0)[0].tolist() == [False, False, False, True]


@pytest.mark.parametrize(("before", "can"), [(3, False), (4, True)])
def test_four_nights_before_the_recent_ones_can_tell(before: int, can: bool) -> None:
    logs = np.zeros((1, before + RECENT))
    assert can_tell(compared_with(logs, 0.03)).tolist() == [can]
    assert FEWEST_NIGHTS == 4 + RECENT


@pytest.mark.parametrize(
    ("nights", "since"),
    [
        ("..........", NO_CANDIDATE),
        (".........x", NO_CANDIDATE),
        ("........xx", 8),
        (".......x.x", 7),
        ("......x..x", NO_CANDIDATE),
        (".......xx.", NO_CANDIDATE),
        (".....x.x.x", 5),
        ("....x..x.x", 7),
        ("xxxxxxxxxx", 4),
        ("..x.x.x.xx", 4),
    ],
)
def test_a_change_begins_with_its_first_bad_night_past_which_no_two_are_fine(
    nights: str, since: int
) -> None:
    beyond = np.array([[night == "x" for night in nights]])
    assert _candidate_since(beyond).tolist() == [since]


def test_each_series_has_its_own_start_and_past() -> None:
    quiet, step = [0.0] * 12, [0.0] * 10 + [0.2] * 2
    logs = np.array([quiet, step, [-value for value in step]])
    pasts = compared_with(logs, 0.03)
    assert first_shown(logs, pasts)[0].tolist() == [NO_CANDIDATE, 10, NO_CANDIDATE]
    assert first_shown(logs, pasts, -1.0)[0].tolist() == [NO_CANDIDATE, NO_CANDIDATE, 10]
    again = np.array([[0.0] * 9 + [0.2, 0.0, 0.0], [0.0] * 9 + [0.2, 0.2, 0.0], quiet])
    assert mended(again, pasts).tolist() == [True, False, True]


def test_a_gain_over_the_first_month_alone_is_none() -> None:
    """It would last for ever; a loss since the first month counts."""
    first, now = [0.0] * MONTH, [0.5] * (MONTH + RECENT)
    logs = np.array([first + now, [-value for value in first + now]])
    pasts = compared_with(logs, 0.03)
    assert first_shown(logs, pasts)[0][0] != NO_CANDIDATE
    assert first_shown(logs, pasts, -1.0)[0].tolist() == [NO_CANDIDATE] * 2


def test_tonight_is_screened_only_if_it_and_enough_nights_are_measured() -> None:
    six = [2.0] * (FEWEST_NIGHTS - 1)
    assert screen(six, STEADY_WALL).state == "insufficient_data"
    assert screen([*six, None, 2.0], STEADY_WALL).state == "fine"
    assert screen([*six, 2.0, None], STEADY_WALL).state == "insufficient_data"
    left_out = screen([2.0] * 8, STEADY_WALL, left_out=[0, 1])
    assert (left_out.state, left_out.nights) == ("insufficient_data", 6)
    found = screen([2.0] * 8 + [3.0, 3.0], STEADY_WALL)
    assert (found.state, found.first_bad_night_index) == ("worse", 8)
    assert found.before == pytest.approx(2.0)
    assert found.now == pytest.approx(3.0)
    assert found.ratio == pytest.approx(1.5)
    one = [2.0] * 9 + [4.0]
    assert screen(one, STEADY_WALL).state == "fine"
    new = screen(one, STEADY_WALL, is_new=True)
    assert (new.state, new.first_bad_night_index) == ("worse", 9)
    assert not new.is_mended


@pytest.mark.parametrize(
    ("softwares", "night"),
    [("", None), ("a", None), ("aaa", None), ("aab", 2), ("abb", 1), ("abaa", 2)],
)
def test_the_newest_software_has_a_first_night(softwares: str, night: int | None) -> None:
    assert newest(softwares) == night


USUAL = ["a"] * 9


@pytest.mark.parametrize(
    ("words", "state", "since"),
    [
        ([*USUAL, "b"], "fine", None),
        ([*USUAL, "b", "b"], "different", 9),
        ([*USUAL, "b", "a", "b"], "different", 9),
        ([*USUAL, "b", "b", "a"], "fine", None),
        ([*USUAL, None, "b", "b"], "different", 10),
        ([*USUAL, "b", "b", None], "insufficient_data", None),
        (["a"] * 4 + ["b"] * 2, "insufficient_data", None),
        (["a"] * 5 + ["b"] * 2, "different", 5),
        (["inconclusive"] * 9 + ["b"] * 2, "insufficient_data", None),
    ],
)
def test_another_word_shows_in_two_of_three_nights(
    words: Sequence[str | None], state: str, since: int | None
) -> None:
    found = screen_words(words, SIGN)
    assert (found.state, found.first_bad_night_index) == (state, since)


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (["ok", "error"], "worse"),
        (["error"], "insufficient_data"),
        (["error", "ok"], "better"),
        (["ok", "ok", "error", "error"], "worse"),
        (["ok", "ok", "error", "error", "error"], "fine"),
    ],
)
def test_a_failure_shows_at_once_until_it_is_usual(words: Sequence[str], state: str) -> None:
    assert screen_words(words, FAILURE).state == state


def test_a_word_seldom_seen_before_is_still_unusual() -> None:
    nineteen, ten = ["a"] * 19, ["a"] * 8
    assert screen_words([*nineteen, "b", "a", "b", "b"], SIGN).state == "different"
    assert screen_words([*ten, "b", "a", "a", "b", "b"], SIGN).state == "fine"


def test_bits_that_did_not_always_repeat_are_no_change() -> None:
    always = ["repeat"] * 9
    assert screen_words([*always, "vary"], REPEATS).state == "worse"
    found = screen_words([*always, "vary", "repeat", "vary"], REPEATS)
    assert (found.state, found.could_show, found.is_mended) == ("fine", False, False)
    assert screen_words([*always, "vary", "repeat"], REPEATS).is_mended


@pytest.mark.parametrize(
    ("words", "softwares", "state", "is_news"),
    [
        (["a"] * 9 + ["b"], "1" * 9 + "2", "different", True),
        (["a"] * 9 + ["a"], "1" * 9 + "2", "fine", False),
        (["a"] * 9 + ["b"] * 2, "1" * 9 + "22", "fine", False),
        (["a"] * 12 + ["b"] * 2, "1" * 14, "different", False),
        (["a"] * 7 + ["b"] * 2, "1" * 9, "fine", False),
        ([*"ab" * 6, "c", "c"], "1" * 14, "fine", False),
    ],
)
def test_kernels_are_news_of_new_software_and_else_a_change_if_no_search_draws_them(
    words: Sequence[str], softwares: str, state: str, is_news: bool
) -> None:
    found = screen_words(words, ENGINE, softwares=softwares)
    assert (found.state, found.is_news) == (state, is_news)
    of_bits = screen_words(words, BITS, softwares=softwares)
    assert of_bits.state == ("different" if is_news else "fine")


def test_a_search_that_keeps_choosing_anew_could_show_nothing() -> None:
    words = [f"kernel {number}" for number in range(12)]
    found = screen_words(words, ENGINE)
    assert (found.state, found.is_mended, found.could_show) == ("fine", True, False)
    assert screen_words(["a"] * 12, ENGINE).could_show


def test_a_layer_that_keeps_its_layout_again_is_better() -> None:
    assert screen_words(["conv1"] * 3 + ["none"], LAYOUT).state == "better"
    assert screen_words(["none"] * 3 + ["conv1"], LAYOUT).state == "worse"


@pytest.mark.parametrize(
    ("pairs", "more"), [(0, 6), (1, 5), (6, 6), (11, 1), (12, 12), (24, 24), (48, 0), (50, 0)]
)
def test_undecided_pairs_ask_for_those_up_to_the_next_look(pairs: int, more: int) -> None:
    scattered = [0.5 * (-1) ** number for number in range(pairs)]
    found = confirm(scattered, 0.03)
    assert (found.state, found.more_blocks, found.blocks) == ("undecided", more, pairs)


@pytest.mark.parametrize(
    ("alike", "blocks"), [(FEWEST_ALIKE - 1, 12), (FEWEST_ALIKE, FEWEST_ALIKE), (12, 12)]
)
def test_pairs_of_the_same_kernels_are_judged_apart_if_there_are_enough(
    alike: int, blocks: int
) -> None:
    """They are 10% slower; the others scatter by far more."""
    same = [0.1 + 0.001 * (number % 2) for number in range(alike)]
    others = [2.0 * (-1) ** number for number in range(12 - alike)]
    found = confirm(same + others, 0.03, [True] * alike + [False] * len(others))
    assert found.blocks == blocks
    assert (found.state == "confirmed") == (alike >= FEWEST_ALIKE)


@pytest.mark.parametrize(
    ("fresh", "is_strict", "state"),
    [
        ([], False, "undecided"),
        (["a", "b"], False, "refuted"),
        (["b", "b", "a"], False, "confirmed"),
        (["a", "a"], False, "refuted"),
        (["a", "a", "b"], True, "confirmed"),
        (["a"], True, "refuted"),
    ],
)
def test_most_fresh_words_confirm_or_a_single_one_of_what_never_happens(
    fresh: Sequence[str], is_strict: bool, state: str
) -> None:
    found = confirm_words(fresh, "a", is_strict=is_strict)
    assert (found.state, found.blocks) == (state, len(fresh))


def judged(before: Sequence[float], since: Sequence[float]) -> Any:
    return judge_nights(np.array([before]), np.array([since]), 0.03)


QUIET = [0.0] * 20


@pytest.mark.parametrize(
    ("before", "since", "is_confirmed", "is_refuted"),
    [
        (QUIET, [0.1] * 3, True, False),
        (QUIET, [0.02] * 14, False, True),
        (QUIET, [0.03] * 14, True, False),
        (QUIET, [0.0] * 14, False, True),
        (QUIET, [-0.1] * 3, False, True),
        (QUIET, [0.1, 0.0, 0.0], False, True),
        ([-0.05, 0.05] * 10, [0.06] * 2, False, False),
        ([-0.05, 0.05] * 10, [0.5] * 2, True, False),
        (QUIET, [0.031], True, False),
        ([0.0, 0.0], [0.03], False, False),
        ([0.0, 0.0], [0.4], True, False),
    ],
)
def test_nights_confirm_a_change_of_at_least_the_least_effect(
    before: Sequence[float], since: Sequence[float], is_confirmed: bool, is_refuted: bool
) -> None:
    found = judged(before, since)
    assert found.is_confirmed.tolist() == [is_confirmed]
    assert found.is_refuted.tolist() == [is_refuted]
    assert found.ratio_log.tolist() == [pytest.approx(float(np.median(since)), abs=0.06)]


def test_a_few_quiet_nights_have_some_noise_and_more_nights_have_less_doubt() -> None:
    few, many = _noise(np.zeros((1, 2))), _noise(np.zeros((1, 20)))
    assert few[0, 0] == pytest.approx(LEAST_NOISE * 1.75)
    assert many[0, 0] == pytest.approx(LEAST_NOISE * 1.075)
    nights = np.array([[-0.1, 0.1] * 10])
    assert _noise(nights)[0, 0] == pytest.approx(0.1 * np.sqrt(20 / 19) * 1.075)
    odd = np.array([[0.01, -0.01] * 10 + [5.0]])
    assert _noise(odd)[0, 0] < 0.03, "an odd night adds little"


@pytest.mark.parametrize(
    ("values", "first_bad", "state", "blocks"),
    [
        ([2.0] * 9 + [3.0] * 2, 9, "confirmed", 2),
        ([2.0] * 9 + [None, 3.0], 9, "confirmed", 1),
        ([2.0] * 9 + [2.05], 9, "undecided", 1),
        ([2.0] * 9 + [None], 9, "undecided", 0),
        ([2.0, 3.0, 3.0], 1, "undecided", 2),
        ([2.0] * 9 + [2.0] * 14, 9, "refuted", 14),
    ],
)
def test_nights_since_a_change_are_judged_by_those_before(
    values: Sequence[float | None], first_bad: int, state: str, blocks: int
) -> None:
    found = confirm_by_nights(values, first_bad, STEADY_WALL)
    assert (found.state, found.blocks) == (state, blocks)


def test_a_week_of_nights_is_also_judged_by_the_first_month() -> None:
    """A creep: the month before is as slow as the nights since, the first month is not."""
    creep = [2.0] * MONTH + [2.2] * MONTH
    week: Sequence[float | None] = [2.2] * FEWEST_NIGHTS
    six = week[1:]
    assert confirm_by_nights([*creep, *week], len(creep), STEADY_WALL).state == "confirmed"
    assert confirm_by_nights([*creep, *six], len(creep), STEADY_WALL).state == "refuted"
    pinned = confirm_by_nights([*creep, *six], len(creep), STEADY_WALL, is_pinned=True)
    assert pinned.state == "confirmed"


def test_the_smallest_step_needs_two_nights_and_is_no_less_than_the_least_effect() -> None:
    def step(values: Sequence[float | None]) -> float | None:
        return smallest_step(values, STEADY_WALL, (), is_pinned=False)

    assert step([2.0] * (RECENT + 1)) is None
    assert step([2.0] * (RECENT + 2)) is not None
    assert step([]) is None
    assert step([2.0] * 30) == STEADY_WALL.min_effect
    noisy = step([2.0, 2.1, 2.2] * 10)
    noisier = step([2.0, 2.3, 2.6] * 10)
    assert noisy is not None and noisier is not None
    assert STEADY_WALL.min_effect < noisy < noisier


# --- Findings that are one, and what is remembered of them ---


@pytest.mark.parametrize(
    ("since", "is_alone", "may_creep", "near"),
    [
        ([5, 6, 8, 9], "....", False, "yyy."),
        ([5, 6, 7], "xxx", False, "yy."),
        ([2, 5, 8, 11, 15], ".....", True, "yyyy."),
        ([2, 5, 8, 11, 15], ".....", False, "yyy.."),
        ([5, 8, 11], "..x", True, "yy."),
        ([5, 9], "..", True, "y."),
    ],
)
def test_findings_begin_together_if_they_are_near_or_creep_one_after_another(
    since: list[int], is_alone: str, may_creep: bool, near: str
) -> None:
    alone = np.array([mark == "x" for mark in is_alone])
    found = begun_with_most(np.array(since), 5, alone, may_creep=may_creep)
    assert found.tolist() == [mark == "y" for mark in near]


def test_most_are_five_and_more_than_half() -> None:
    assert are_most(FEWEST_SERIES, 9)
    assert not are_most(FEWEST_SERIES, 10)
    assert not are_most(FEWEST_SERIES - 1, 4)


def test_ratios_are_alike_near_the_typical_one() -> None:
    logs = np.array([0.2, 0.1, 0.3, 0.2, 0.31, 0.09])
    assert are_alike(logs, 0.03).tolist() == [True, True, True, True, False, False]
    small = np.array([0.01, 0.0, 0.035])
    assert are_alike(small, 0.03).tolist() == [True, True, True]


@pytest.mark.parametrize(
    ("states", "shared", "confirmed"),
    [
        ("cc.", None, True),
        ("c.", None, False),
        ("c..", None, False),
        ("c..", "told", True),
        ("...", "told", False),
    ],
)
def test_most_members_or_one_of_last_nights_alert_confirm(
    states: str, shared: str | None, confirmed: bool
) -> None:
    members: Any = [
        SimpleNamespace(state="confirmed" if mark == "c" else "waiting", shared=shared)
        for mark in states
    ]
    assert _is_confirmed(members, {"told"}) is confirmed


def point(value: float | str | None, day: int = 0, **of: Any) -> NightPoint:
    return NightPoint(date=FIRST + timedelta(days=day), value=value, software_hash="s", **of)


@pytest.mark.parametrize(
    ("value", "day", "ratio", "shows"),
    [
        (10.0, 5, 1.21, False),
        (11.1, 5, 1.21, True),
        (10.9, 5, 1.21, False),
        (11.1, 4, 1.21, False),
        (9.1, 5, 0.81, False),
        (8.9, 5, 0.81, True),
        (10.0, 5, None, True),
        (20.0, 5, 4.0, False),
        (20.1, 5, 4.0, True),
        (5.0, 5, 0.25, True),
        (5.1, 5, 0.25, False),
        ("a", 5, 1.21, False),
        (None, 5, 1.21, False),
    ],
)
def test_a_night_shows_a_change_if_it_is_nearer_to_the_new_value(
    value: float | str | None, day: int, ratio: float | None, shows: bool
) -> None:
    finding: Any = SimpleNamespace(before=10.0, ratio=ratio, since=FIRST + timedelta(days=5))
    assert _shows(point(value, day), finding) is shows
    finding.before = None
    assert _shows(point(value, day), finding) is (isinstance(value, float) and day >= 5)


def test_a_member_ends_the_shared_finding_if_a_recent_night_is_fine() -> None:
    key = key_of()
    finding = finding_of(key, FIRST, before=10.0, now=12.1, ratio=1.21)
    slow = Series(key=key, points=tuple(points_of([10.0, 12.0, 12.0, 12.0], FIRST)))
    fine = Series(key=key, points=tuple(points_of([10.0, 12.0, 10.0, 12.0], FIRST)))
    shared = replace(finding, shared="told")
    assert [_ends(shared, of) for of in (slow, fine)] == [False, True]
    assert not _ends(finding, fine)


@pytest.mark.parametrize(
    ("of", "machine"),
    [
        ({}, None),
        ({"gpu_uuid": "GPU-a"}, "GPU-a"),
        ({"gpu_uuid": "GPU-a", "host": "node"}, "GPU-a on node"),
    ],
)
def test_a_machine_is_a_gpu_with_its_host(of: dict[str, Any], machine: str | None) -> None:
    assert _machine(point(1.0, **of)) == machine


@pytest.mark.parametrize(
    ("values", "since", "until"),
    [
        ([1.0] * 6, 2, 3),
        ([1.0, None, 1.0, 1.0, 1.0, 1.0], 0, 3),
        ([1.0] * 6, 5, 5),
        ([1.0, 1.0], 0, 0),
        ([1.0, 1.0, 1.0], 0, 0),
        ([1.0] * 4, 0, 1),
    ],
)
def test_a_span_ends_before_the_fine_nights_that_end_it(
    values: Sequence[float | None], since: int, until: int
) -> None:
    key = key_of()
    series = Series(key=key, points=tuple(points_of(values, FIRST)))
    span = LeftOut(key=key, since=FIRST + timedelta(days=since), until=None)
    assert _ended(span, series).until == FIRST + timedelta(days=until)


def test_nights_of_an_alert_and_before_an_acceptance_are_left_out() -> None:
    key, other = key_of(), key_of(cell="pool", cell_id="cell-pool")
    series = Series(key=key, points=tuple(points_of([1.0] * 8, FIRST)))
    days = [FIRST + timedelta(days=day) for day in range(8)]
    closed = LeftOut(key=key, since=days[4], until=days[5])
    accepted = Acceptance(key=key, first=days[2], reason="new driver", told_on=days[1])
    assert Memory(left_out=(closed,)).nights_left_out(series) == {4, 5}
    assert Memory(accepted=(accepted,)).nights_left_out(series) == {0, 1}
    both = Memory(left_out=(closed,), accepted=(accepted,))
    assert both.nights_left_out(series) == {0, 1, 4, 5}
    not_its = LeftOut(key=other, since=days[0], until=None)
    assert Memory(left_out=(not_its,)).nights_left_out(series) == frozenset()


def test_an_alert_opens_a_span_and_a_fine_series_closes_it() -> None:
    key = key_of()
    alert = finding_of(key, FIRST + timedelta(days=2), before=1.0, now=2.0)
    series = Series(key=key, points=tuple(points_of([1.0] * 8, FIRST)))
    (span,) = Memory().after([alert], [series])
    assert (span.key, span.since, span.until) == (key, alert.since, None)
    lasting = Memory(left_out=(span,))
    assert lasting.after([alert], [series]) == (span,), "no second one"
    (closed,) = lasting.after([], [series])
    assert closed.until == FIRST + timedelta(days=5)
    assert lasting.after([], [replace(series, is_judged=False)]) == (span,)
    assert Memory().after([replace(alert, state="waiting")], [series]) == ()
    assert Memory(left_out=(closed,)).after([alert], [series]) == (closed, span)


@pytest.mark.parametrize(
    ("gpus", "env_hash", "ran"),
    [
        ("aaab", "lab", True),
        ("abbb", "lab", False),
        ("babb", "lab", True),
        ("aaaa", "other", False),
    ],
)
def test_a_series_ran_on_a_machine_if_one_of_its_last_three_nights_did(
    gpus: str, env_hash: str, ran: bool
) -> None:
    points = [point(1.0, day, gpu_uuid=gpu) for day, gpu in enumerate(gpus)]
    key = replace(key_of(), env_hash="lab")
    place: Any = SimpleNamespace(env_hash=env_hash, cell_id="a")
    assert _ran_on(Series(key=key, points=tuple(points)), place) is ran


def process(block: int, kernels: str | None, *, is_good: bool = False, cell: str = "a") -> Any:
    software = "good" if is_good else None
    return {"block": block, ENGINE.name: kernels, "software": software, "cell_id": cell}


def test_pairs_are_alike_if_both_softwares_ran_the_same_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(candidates, "_is_of", lambda row, key: row["cell_id"] == key)
    rows = [
        process(0, "k"),
        process(0, "k", is_good=True),
        process(1, "k"),
        process(1, "other", is_good=True),
        process(2, None),
        process(2, None, is_good=True),
        process(3, "k"),
        process(4, "k", cell="b"),
        process(4, "k", is_good=True, cell="b"),
    ]
    fresh: Any = SimpleNamespace(processes=rows)
    key: Any = "a"
    assert FreshTrials._alike(fresh, key) == {0}
