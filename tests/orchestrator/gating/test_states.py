"""What a gate says of a verdict, by tables."""

from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.orchestrator.gating.answer import _ends, _share
from cudnn_sweep.orchestrator.gating.gate import state_of


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "cannot tell yet"),
        ({"wall_verdict": "hurts"}, "slower"),
        ({"wall_verdict": "fails"}, "broken"),
        ({"wall_verdict": "helps", "ratio_high": 0.9}, "faster"),
        ({"wall_verdict": "equivalent", "ratio_high": 1.0}, "not slower"),
        ({"wall_verdict": "equivalent", "ratio_high": 0.999}, "faster"),
        ({"not_slower": True, "ratio_high": 1.005}, "not slower"),
        ({"not_slower": True, "ratio_high": 1.5}, "not slower"),
        ({"blocks": 0, "candidate_failed": 1}, "broken"),
        ({"blocks": 0, "candidate_failed": 1, "baseline_failed": 1}, "cannot tell yet"),
        ({"candidate_failed": 1}, "cannot tell yet"),
    ],
)
def test_a_verdict_has_one_state(changes: dict[str, Any], state: str) -> None:
    usual = {"wall_verdict": "inconclusive", "not_slower": False, "ratio_high": 1.02}
    counts = {"blocks": 3, "candidate_failed": 0, "baseline_failed": 0}
    row: Any = SimpleNamespace(**usual | counts | changes)
    assert state_of(row) == state


def test_without_a_verdict_a_gate_cannot_tell() -> None:
    assert state_of(None) == "cannot tell yet"


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (None, None, ""),
        (0.98, 1.02, " (0.980 to 1.020)"),
        (0.5, 2.0, " (0.500 to 2.000)"),
        (0.49, 1.0, " (too few blocks for an interval)"),
        (1.0, 2.01, " (too few blocks for an interval)"),
        (None, 3.0, ""),
        (0.1, None, ""),
    ],
)
def test_an_interval_that_says_nothing_is_left_out(
    low: float | None, high: float | None, text: str
) -> None:
    assert _ends(low, high) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0.0009, "under 0.1%"), (0.001, "0.1%"), (0.05, "5%"), (0.123, "12%")]
)
def test_a_share_has_two_digits(share: float, text: str) -> None:
    assert _share(share) == text
