from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from cudnn_sweep.analysis.results.verdicts import BreakEven
from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.analysis.store.store import Store
from tests.analysis.conftest import make_pair

Answer = Callable[..., list[BreakEven]]


@pytest.fixture
def answer(store: Store) -> Answer:
    def answered(blocks: list[list[RunRecord]], **values: str) -> list[BreakEven]:
        for block in blocks:
            store.write(*block)
        return BreakEven.of(store, **values)

    return answered


def test_break_even_divides_tuning_cost_by_gain_with_the_intervals_corners(answer: Answer) -> None:
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


def _pairs(candidate_ms: float, **columns: object) -> list[list[RunRecord]]:
    return [make_pair(block, 10.0, candidate_ms, **columns) for block in range(3)]


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_time_that_is_no_number_is_inconclusive(answer: Answer, wrong: float) -> None:
    (found,) = answer([make_pair(0, 10.0, 5.0), make_pair(1, wrong, 5.0), make_pair(2, 10.0, 5.0)])
    assert found.outcome == "inconclusive"


def test_each_sign_of_cost_and_gain_has_its_outcome(answer: Answer) -> None:
    """And an open loop has none; where the compute cache is disabled there is one state."""
    disabled = {"compute_cache": "disabled", "compute_cache_disabled": True}
    cases = {
        "after": ([_costing(pair, 30.0, 530.0) for pair in _pairs(5.0)], 100),
        "at once": ([_costing(pair, 30.0, 10.0) for pair in _pairs(5.0)], 0),
        "never": ([_costing(pair, 30.0, 530.0) for pair in _pairs(15.0)], None),
        "until": ([_costing(pair, 30.0, 10.0) for pair in _pairs(12.0)], 10),
        "open loop": (_pairs(5.0, loop_kind="open"), None),
        "disabled": (_pairs(5.0, **disabled), 470 / 5),
    }
    every = [
        [replace(each, cell_id=case, trial_id=f"{case[:2]}-{each.trial_id}") for each in pair]
        for case, (pairs, _) in cases.items()
        for pair in pairs
    ]
    found = {row.cell_id: row for row in answer(every)}
    for case, (_, iterations) in cases.items():
        row = found[case]
        assert row.outcome == ("after" if case == "disabled" else case)
        ends = (row.break_even_iterations, row.break_even_low, row.break_even_high)
        assert (
            ends == (None,) * 3 if iterations is None else ends == pytest.approx([iterations] * 3)
        )
    assert found["open loop"].gain_ms is None
    assert (found["disabled"].compute_cache, found["disabled"].tuning_ms) == ("disabled", 470.0)


@pytest.mark.parametrize(("baseline", "sign"), [("false", 1), ("true", -1)])
def test_disabling_the_compute_cache_costs_what_the_other_trial_found_in_it(
    answer: Answer, baseline: str, sign: int
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


def test_without_a_compiler_the_longer_start_is_the_search(answer: Answer) -> None:
    (row, *_) = answer([make_pair(block, 10.0, 9.0) for block in range(3)])
    assert row.search_ms == row.tuning_ms > 0 and row.compile_ms is None


@pytest.mark.slow
def test_compiling_is_part_of_the_start_apart_from_what_is_left_to_a_search(
    answer: Answer,
) -> None:
    """By shape, where the second is a recompilation; a graph whose capture was not timed stays whole."""
    contrast = {"field": "execution", "baseline": "null"}
    ran: dict[str, dict[str, Any]] = {
        "compile": {"cold_compile_ms": [800.0, 300.0], "compiled_graphs": 1, "one_time_s": 3.0},
        "cuda_graph": {"cold_compile_ms": [40.0, 40.0], "one_time_s": 0.5},
        "max_autotune": {"compiled_graphs": 1, "one_time_s": 3.0},
    }
    blocks = []
    for block, cache in enumerate(["empty", "warm", "warm"]):
        eager, other = make_pair(block, 10.0, 5.0, compute_cache=cache, one_time_s=1.0)
        eager = _visiting(eager, [100, 100], [10, 10])
        other = _visiting(replace(other, benchmark=False), [1000, 500], [10, 10])
        others = [
            replace(other, execution=name, trial_id=f"{name}-{block}", **of_it)
            for name, of_it in ran.items()
        ]
        blocks.append([eager, *others])

    def starts(name: str, **values: str) -> list[tuple[float | None, ...]]:
        rows = answer([], **contrast, candidate=name, **values)
        return [(row.tuning_ms, row.compile_ms, row.search_ms) for row in rows]

    answer(blocks, **contrast, candidate="compile")
    imported = 2000.0
    of_both = (1300 + imported, 1100 + imported, 200)
    assert starts("compile") == [of_both] * 2, "with an empty cache and with a warm one"
    first, second = (900 + imported, 800 + imported, 100), (400, 300, 100)
    assert starts("compile", per="shape") == [first, second] * 2
    assert starts("cuda_graph") == [(1300, 80, 1220)] * 2, "and its process imports no compiler"
    recorded = 2 * (10.0 - 5.0)  # in each shape's second call
    assert starts("max_autotune") == [(1300 + imported + recorded, None, None)] * 2
    (_, warm) = answer([], **contrast, candidate="compile")
    assert (warm.outcome, warm.break_even_iterations) == ("after", (1300 + imported) / 5)


@pytest.mark.slow
def test_without_second_calls_every_shape_gains_the_regimes_mean(answer: Answer) -> None:
    pairs = [make_pair(block, 10.0, 5.0) for block in range(3)]
    blank = [[_visiting(each, [30, 10], [None, None]) for each in pair] for pair in pairs]
    answer(blank)
    assert [row.gain_ms for row in answer([], per="shape")] == [5.0, 5.0]


def _visiting(
    record: RunRecord, first_ms: Sequence[float], second_ms: Sequence[float | None]
) -> RunRecord:
    """The record with two shapes that took this long at their first and second calls."""
    shapes = [[64, 3], [8, 3]]
    calls = zip(shapes, first_ms, second_ms, strict=True)
    (met,) = record.cold or []
    cold = [
        replace(met, shape=shape, first_ms=first, second_ms=second)
        for shape, first, second in calls
    ]
    return replace(record, cold=cold)


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
