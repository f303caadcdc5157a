"""Questions about cells and choices, in cases that the stores of the goldens have not."""

from dataclasses import replace
from math import nan
from typing import Any

import pytest

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.results.verdicts import TimeShare
from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.analysis.store.store import Store
from tests.analysis.conftest import Ask, in_cell, make_pair, make_record


def test_the_worst_of_all_is_what_fails(ask: Ask) -> None:
    lost = _cell("lost", 10.0, 5.0)
    trials = [replace(each, status="out_of_memory") if each.benchmark else each for each in lost]
    slow, fast = _cell("slow", 10.0, 15.0), _cell("fast", 10.0, 9.0)
    rows = ask("helps_or_hurts", [*_cell("slower", 10.0, 12.0), *slow, *fast, *trials], worst=2)
    assert [(row["cell_id"], row["wall_verdict"]) for row in rows] == [
        ("cell-lost", "fails"),
        ("cell-slow", "hurts"),
    ]


def _cell(name: str, baseline_ms: float, candidate_ms: float, **changes: Any) -> list[RunRecord]:
    """Three blocks of a cell."""
    return [
        in_cell(each, f"cell-{name}", **changes)
        for block in range(3)
        for each in make_pair(block, baseline_ms, candidate_ms)
    ]


PHASES = ("start", "one_time", "build", "cold", "calibration", "steady", "checks", "exit")


def test_a_trial_that_never_answered_counts_as_other(store: Store) -> None:
    unknown = {f"{phase}_s": None for phase in PHASES}
    hung = make_record(status="timeout", process_s=300.0, log_s=None, gap_s=None, **unknown)
    found = _shares(store, hung)
    assert (found["other"].total_s, found["other"].share) == (300.0, 1.0)
    assert (found["steady"].trials, found["steady"].total_s, found["steady"].share) == (0, 0, 0)


def _shares(store: Store, *records: RunRecord) -> dict[str, TimeShare]:
    store.write(*records)
    return {share.part: share for share in TimeShare.of(store)}


def test_kernels_of_two_sources_are_not_called_other_ones(ask: Ask) -> None:
    baseline, candidate = make_pair(0, 10.0, 5.0)
    (row,) = ask("helps_or_hurts", [baseline, replace(candidate, kernels_source="profiler")])
    assert row["other_kernels_share"] is None


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        (2, "in one half 0.93; in 1 of 2 processes 0.86"),
        (3, "usually 0.93; in 1 of 3 processes 0.86"),
    ],
)
def test_of_two_processes_neither_is_usual(kept_store: Store, blocks: int, words: str) -> None:
    asked = f"select in_choices(2, {blocks}, {blocks - 1}, ln(0.93), [ln(0.86)], 0.03) as said"
    with open_database(kept_store) as database:
        assert database.query(asked).to_pylist() == [{"said": words}]


def test_trials_without_a_fingerprint_are_left_out(ask: Ask) -> None:
    assert ask("computes", [make_record(fingerprint=None)]) == []
    assert ask("computes", [make_record(trial_id="failed", status="crash")]) == []


def test_losses_of_configs_are_compared_within_their_blocks(ask: Ask) -> None:
    losses = [(2.0, 2.001), (2.0, 1.99)]
    trials = [
        replace(trial, loss_first=loss, loss_last=0.1, fingerprint=None)
        for block, pair in enumerate(losses)
        for trial, loss in zip(make_pair(block, 10.0, 5.0), pair, strict=True)
    ]
    default, searched = ask("computes", trials)
    assert (default["loss"], default["loss_pairs"], default["loss_difference"]) == (2.0, 0, None)
    assert (searched["processes"], searched["loss_pairs"]) == (0, 2)
    assert searched["loss_difference"] == pytest.approx(0.005)
    assert default["finite_losses"] is searched["finite_losses"] is True


@pytest.mark.parametrize("broken", [{"loss_first": nan}, {"loss_last": nan}])
def test_a_loss_that_is_no_number_is_told(ask: Ask, broken: dict[str, Any]) -> None:
    default, searched = (
        replace(trial, loss_first=2.0, loss_last=1.0) for trial in make_pair(0, 10.0, 5.0)
    )
    rows = ask("computes", [default, replace(searched, **broken)])
    assert [row["finite_losses"] for row in rows] == [True, False]
