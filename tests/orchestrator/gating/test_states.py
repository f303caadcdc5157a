"""What a gate says of a verdict, by tables."""

from types import SimpleNamespace
from typing import Any

import pytest

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
