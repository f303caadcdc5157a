"""Why a night without alerts is not called fine."""

from dataclasses import replace
from datetime import date, timedelta

from cudnn_sweep.analysis.nights.candidates import Screened
from cudnn_sweep.analysis.nights.series import Series
from cudnn_sweep.analysis.nights.settle import _reasons
from tests.made_up_night import history_of, key_of

FIRST = date(2026, 11, 1)


def reasons(judged: int, others: int, *, nights: int = 10, is_cut: bool = False) -> tuple[str, ...]:
    values: list[float | str | None] = [10.0] * nights
    history = history_of(key_of(), values, FIRST)
    *before, tonight = history.nights
    tonight = replace(tonight, reached=7 if is_cut else 10)
    history = replace(history, nights=(*before, tonight))
    (whole,) = history.series
    gone = replace(whole.points[-1], value=None)
    series = [
        Series(
            key=key_of(cell_id=f"{place}"),
            points=whole.points if place < judged else (*whole.points[:-1], gone),
            is_judged=place < judged,
        )
        for place in range(judged + others)
    ]
    return _reasons(history, Screened(candidates=(), series=tuple(series)))


def test_nine_of_ten_series_have_to_be_judged() -> None:
    assert reasons(9, 1) == ()
    assert reasons(10, 0) == ()
    assert reasons(8, 1) == ("too few of 9 series can be judged, 1 have no value tonight",)


def test_the_first_nights_are_too_few() -> None:
    (few,) = reasons(0, 3, nights=6)
    assert few.startswith("too few nights: 6 of the 7 nights")
    (enough,) = reasons(0, 3, nights=7)
    assert enough == "too few of 3 series can be judged, 3 have no value tonight"
    assert FIRST + timedelta(days=6) == history_of(key_of(), [1.0] * 7, FIRST).tonight.date


def test_a_night_whose_time_was_up_says_so() -> None:
    _, cut = reasons(0, 3, is_cut=True)
    assert cut.startswith("the time was up after 7 of 10 trials")
