"""The question `model_step`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.analysis.conftest import Ask, make_pair

if TYPE_CHECKING:
    from cudnn_sweep.analysis.storing.schema import RunRecord


def pairs(cell_id: str, problem: str, times: int, off_ms: float, on_ms: float) -> list[RunRecord]:
    made = [trial for block in range(3) for trial in make_pair(block, off_ms, on_ms)]
    return [
        replace(
            trial,
            trial_id=f"{cell_id}-{trial.trial_id}",
            attempt_id=f"{cell_id}-{trial.trial_id}",
            cell_id=cell_id,
            problem=problem,
            occurrences=times,
            suite="Net.yaml",
            steady_device_ms=None,
        )
        for trial in made
    ]


def test_convolutions_add_up_by_how_often_a_step_runs_them(ask: Ask) -> None:
    first = pairs("a", "conv1", 1, 10.0, 5.0)
    often = pairs("b", "conv2", 4, 2.0, 3.0)
    (row,) = ask("model_step", [*first, *often])
    assert (row["suite"], row["network"], row["step"]) == ("Net.yaml", "Net.yaml", "all")
    assert (row["convolutions"], row["missing"], row["runs"]) == (2, 0, 5)
    assert row["baseline_ms"] == pytest.approx(10 + 4 * 2)
    assert row["candidate_ms"] == pytest.approx(5 + 4 * 3)
    assert row["ratio"] == pytest.approx(17 / 18)
    assert row["ratio_low"] == row["ratio_high"] == row["ratio"], "the blocks are all alike"
    assert (row["saved_ms"], row["timer"]) == (pytest.approx(1.0), "wall")


def test_precisions_of_one_convolution_are_steps_of_their_own(ask: Ask) -> None:
    usual = pairs("a", "conv1", 2, 10.0, 5.0)
    exact = [replace(trial, precision="fp32") for trial in pairs("b", "conv1", 2, 20.0, 20.0)]
    rows = ask("model_step", [*usual, *exact])
    ratios = {row["step"]: row["ratio"] for row in rows}
    ways = [f"{precision} contiguous batch 64" for precision in (usual[0].precision, "fp32")]
    assert ratios == {ways[0]: pytest.approx(0.5), ways[1]: pytest.approx(1.0)}


def test_a_set_of_problems_that_is_no_network_is_no_step(ask: Ask) -> None:
    assert ask("model_step", pairs("a", "tutorials/rgb256", 1, 10.0, 5.0)) == []
    (row,) = ask("model_step", pairs("b", "resnet50/conv2", 3, 10.0, 5.0))
    assert row["network"] == "resnet50"
