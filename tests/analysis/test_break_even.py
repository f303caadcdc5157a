from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from cudnn_sweep.analysis.schema import RunRecord
from cudnn_sweep.analysis.store import Store
from cudnn_sweep.analysis.verdicts import BreakEven, break_evens

MakePair = Callable[..., list[RunRecord]]
Answer = Callable[..., list[BreakEven]]


@pytest.fixture
def answer(store: Store) -> Answer:
    def answered(blocks: list[list[RunRecord]], **values: str) -> list[BreakEven]:
        for block in blocks:
            for record in block:
                store.write(record)
        return break_evens(store, **values)

    return answered


def test_break_even_divides_tuning_cost_by_gain_with_the_intervals_corners(
    answer: Answer, make_pair: MakePair
) -> None:
    gains, tunings = np.array([4.0, 5.0, 6.0]), np.array([400.0, 450.0, 500.0])
    blocks = [
        _costing(make_pair(n, 10.0, 10.0 - gain), 30.0, 30.0 + tuning)
        for n, (gain, tuning) in enumerate(zip(gains.tolist(), tunings.tolist(), strict=True))
    ]
    (found,) = answer(blocks)
    gain_low, gain_high = stats.t.interval(0.95, 2, gains.mean(), stats.sem(gains))
    tuning_low, tuning_high = stats.t.interval(0.95, 2, tunings.mean(), stats.sem(tunings))
    assert (found.outcome, found.compute_cache) == ("after", "warm")
    assert found.break_even_iterations == pytest.approx(450 / 5)
    assert found.break_even_low == pytest.approx(tuning_low / gain_high, rel=1e-5)
    assert found.break_even_high == pytest.approx(tuning_high / gain_low, rel=1e-5)


@pytest.mark.parametrize(
    ("candidate_ms", "candidate_cold_ms", "outcome", "iterations"),
    [
        (5.0, 530.0, "after", 100),
        (5.0, 10.0, "at once", 0),
        (15.0, 530.0, "never", None),
        (12.0, 10.0, "until", 10),
    ],
)
def test_each_sign_of_cost_and_gain_has_its_outcome(
    answer: Answer,
    make_pair: MakePair,
    candidate_ms: float,
    candidate_cold_ms: float,
    outcome: str,
    iterations: int | None,
) -> None:
    pairs = [make_pair(block, 10.0, candidate_ms) for block in range(3)]
    (found,) = answer([_costing(pair, 30.0, candidate_cold_ms) for pair in pairs])
    assert (found.outcome, found.break_even_iterations) == (outcome, iterations)
    assert found.break_even_low == found.break_even_high == iterations


def test_an_uncertain_gain_is_inconclusive_and_says_what_is_the_least(
    answer: Answer, make_pair: MakePair
) -> None:
    (found,) = answer([make_pair(0, 10.0, 9.0), make_pair(1, 10.0, 10.5), make_pair(2, 10.0, 9.7)])
    assert found.gain_ms_low is not None and found.gain_ms_high is not None
    assert found.gain_ms_low < 0 < found.gain_ms_high
    assert (found.outcome, found.break_even_iterations) == ("inconclusive", None)
    assert found.break_even_low == pytest.approx(470 / found.gain_ms_high)
    assert found.break_even_high is None


def test_each_state_of_the_compute_cache_has_its_own_row(
    answer: Answer, make_pair: MakePair
) -> None:
    blocks = [make_pair(block, 10.0, 5.0) for block in range(4)]
    blocks[0] = [replace(each, compute_cache="empty") for each in blocks[0]]
    blocks[0] = _costing(blocks[0], 30.0, 5030.0)
    blocks[1][0] = replace(blocks[1][0], compute_cache="empty")  # pairs with no warm one
    empty, warm = answer(blocks)
    assert (empty.compute_cache, empty.tuning_blocks, empty.tuning_ms) == ("empty", 1, 5000.0)
    assert (warm.compute_cache, warm.tuning_blocks, warm.tuning_ms) == ("warm", 2, 470.0)
    assert empty.gain_blocks == warm.gain_blocks == 4, "steady times pool both states"
    assert empty.break_even_iterations == pytest.approx(1000)


@pytest.mark.parametrize(("baseline", "sign"), [("false", 1), ("true", -1)])
def test_disabling_the_compute_cache_costs_what_the_other_trial_found_in_it(
    answer: Answer, make_pair: MakePair, baseline: str, sign: int
) -> None:
    blocks = []
    for block, state in enumerate(["empty", "warm", "warm"]):
        cached, disabled = make_pair(block, 10.0, 10.0, benchmark=True, compute_cache=state)
        disabled = replace(disabled, compute_cache="disabled", compute_cache_disabled=True)
        blocks.append(_costing([cached, disabled], 1000.0 if state == "empty" else 100.0, 1100.0))
    candidate = "true" if baseline == "false" else "false"
    contrast = {"field": "compute_cache_disabled", "baseline": baseline, "candidate": candidate}
    empty, warm = answer(blocks, **contrast)
    assert (empty.compute_cache, empty.tuning_blocks, empty.tuning_ms) == ("empty", 1, sign * 100.0)
    assert (warm.compute_cache, warm.tuning_blocks, warm.tuning_ms) == ("warm", 2, sign * 1000.0)


def test_with_the_compute_cache_disabled_there_is_one_state(
    answer: Answer, make_pair: MakePair
) -> None:
    disabled = {"compute_cache": "disabled", "compute_cache_disabled": True}
    (found,) = answer([make_pair(block, 10.0, 5.0, **disabled) for block in range(3)])
    assert (found.compute_cache, found.tuning_ms, found.outcome) == ("disabled", 470.0, "after")


def test_an_open_loop_has_no_break_even(answer: Answer, make_pair: MakePair) -> None:
    (found,) = answer([make_pair(block, 10.0, 5.0, loop_kind="open") for block in range(3)])
    assert (found.outcome, found.gain_ms, found.break_even_low) == ("open loop", None, None)


def test_without_cuda_there_is_no_effect(answer: Answer, make_pair: MakePair) -> None:
    cpu = {"device": "cpu", "compute_cache": None}
    (found,) = answer([make_pair(block, 10.0, 5.0, **cpu) for block in range(3)])
    assert (found.outcome, found.no_effect_reason) == ("no_effect", "no_cuda")
    assert (found.compute_cache, found.break_even_iterations) == ("none", None)


def _costing(
    pair: list[RunRecord], baseline_cold_ms: float, candidate_cold_ms: float
) -> list[RunRecord]:
    """The pair with these cold costs, each spread over two shapes."""
    return [
        replace(
            record, cold=[replace(shape, first_ms=cost / 2) for shape in 2 * (record.cold or [])]
        )
        for record, cost in zip(pair, [baseline_cold_ms, candidate_cold_ms], strict=True)
    ]
