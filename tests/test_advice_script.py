"""docs/advice.py, which checks `sweep advise` on a GPU: what it runs, and when it calls an answer right."""

from runpy import run_path
from typing import Any

import pytest

from tests.conftest import ROOT

SCRIPT = run_path(str(ROOT / "docs" / "advice.py"))
TOLD = {
    "baseline_ms": 10.0,
    "candidate_ms": 8.0,
    "baseline_s": 15.5,
    "job_steps": 1500,
}


def _case(side: str) -> Any:
    return next(case for case in SCRIPT["cases"](tiny=False) if case.side == side)


def test_sixteen_cases_have_both_starts_for_fixed_and_varying_sizes_on_both_sides() -> None:
    cases = SCRIPT["cases"](tiny=False)
    assert len({case.name for case in cases}) == 16
    kinds = [(bool(case.regime), case.state, case.side) for case in cases]
    assert {kinds.count(kind) for kind in set(kinds)} == {2}
    assert len(set(kinds)) == 8


@pytest.mark.parametrize(
    ("side", "break_even", "chosen"),
    [
        ("below", 2000.0, (1200, "below")),
        ("above", 800.0, (1360, "above")),
        ("below", 500.0, (950, "above")),  # a run below it would be shorter than 10 s
        ("above", 9000.0, (1950, "below")),
        ("above", None, (1450, "none")),
    ],
)
def test_steps_are_on_the_side_of_the_break_even_point_that_a_run_of_ten_to_twenty_seconds_has(
    side: str, break_even: float | None, chosen: tuple[int, str]
) -> None:
    told = TOLD | {"break_even_steps": break_even}
    assert SCRIPT["steps_of"](_case(side), told, tiny=False) == chosen


@pytest.mark.parametrize(
    ("advice", "actual", "right"),
    [
        ("on", 0.9, True),
        ("no difference", 0.9, False),
        ("off", 1.1, True),
        ("on", 1.1, False),
        ("no difference", 1.005, True),
        ("on", 0.995, False),
        ("on", 0.98, True),
        ("no difference", 1.02, True),
    ],
)
def test_an_answer_is_right_by_its_sign_where_that_matters(
    advice: str, actual: float, right: bool
) -> None:
    assert SCRIPT["is_right"](advice, actual) == right
