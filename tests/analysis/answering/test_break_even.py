from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from cudnn_sweep.analysis.answering.verdicts import BreakEven, break_evens
from cudnn_sweep.analysis.errors import QueryError
from cudnn_sweep.analysis.storing.schema import RunRecord
from cudnn_sweep.analysis.storing.store import Store
from tests.analysis.conftest import Ask, make_pair

Answer = Callable[..., list[BreakEven]]


@pytest.fixture
def answer(store: Store) -> Answer:
    def answered(blocks: list[list[RunRecord]], **values: str) -> list[BreakEven]:
        for block in blocks:
            store.write(*block)
        return break_evens(store, **values)

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


def test_the_cost_of_a_single_block_has_no_interval(answer: Answer) -> None:
    blocks = [make_pair(number, 10.0, 5.0 + number / 100) for number in range(4)]
    blocks[0] = [replace(record, compute_cache="empty") for record in blocks[0]]
    empty, warm = answer(blocks)
    assert (empty.compute_cache, empty.tuning_blocks, empty.outcome) == ("empty", 1, "after")
    assert empty.break_even_iterations == pytest.approx(470 / 4.985)
    assert (empty.break_even_low, empty.break_even_high) == (None, None)
    assert warm.break_even_low is not None and warm.break_even_high is not None


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


def test_an_uncertain_gain_is_inconclusive_and_says_what_is_the_least(answer: Answer) -> None:
    (found,) = answer([make_pair(0, 10.0, 9.0), make_pair(1, 10.0, 10.5), make_pair(2, 10.0, 9.7)])
    assert found.gain_ms_low is not None and found.gain_ms_high is not None
    assert found.gain_ms_low < 0 < found.gain_ms_high
    assert (found.outcome, found.break_even_iterations) == ("inconclusive", None)
    assert found.break_even_low == pytest.approx(470 / found.gain_ms_high)
    assert found.break_even_high is None


def test_each_state_of_the_compute_cache_has_its_own_row(answer: Answer) -> None:
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


def test_per_shape_iterations_are_counted_at_that_shape(answer: Answer) -> None:
    blocks = []
    for block, gain_ms in enumerate([4.0, 5.0, 6.0]):
        default, searched = make_pair(block, 10.0, 10.0 - gain_ms)
        blocks.append(
            [_visiting(default, [30, 10], [12, 4]), _visiting(searched, [180, 60], [9, 9])]
        )
    (regime,) = answer(blocks)
    assert (regime.shape, regime.tuning_ms, regime.gain_ms) == (None, 200.0, 5.0)
    larger, smaller = answer([], per="shape")
    assert (larger.shape, smaller.shape) == ("64x3", "8x3")
    assert (larger.tuning_ms, smaller.tuning_ms) == (150.0, 50.0)
    # the baseline's second calls take 12 and 4 ms: 1.5 and 0.5 of their mean
    assert (larger.gain_ms, smaller.gain_ms) == (7.5, 2.5)
    assert larger.break_even_iterations == pytest.approx(150 / 7.5)
    assert smaller.break_even_iterations == pytest.approx(50 / 2.5)
    low, high = stats.t.interval(0.95, 2, 5.0, 1 / np.sqrt(3))
    assert smaller.break_even_low == pytest.approx(50 / (0.5 * high), rel=1e-5)
    assert smaller.break_even_high == pytest.approx(50 / (0.5 * low), rel=1e-5)


def test_one_shape_is_a_regime(answer: Answer) -> None:
    (regime,), (shape,) = answer(_pairs(5.0)), answer([], per="shape")
    assert (shape.shape, shape.outcome) == ("64x256x56x56", "after")
    assert shape.break_even_iterations == regime.break_even_iterations


def test_without_second_calls_every_shape_gains_the_regimes_mean(answer: Answer) -> None:
    pairs = [make_pair(block, 10.0, 5.0) for block in range(3)]
    blank = [[_visiting(each, [30, 10], [None, None]) for each in pair] for pair in pairs]
    answer(blank)
    assert [row.gain_ms for row in answer([], per="shape")] == [5.0, 5.0]


def test_another_per_is_named_with_the_valid_ones(answer: Answer) -> None:
    with pytest.raises(QueryError, match="per: found week, allowed are regime and shape"):
        answer([make_pair(0, 10.0, 5.0)], per="week")


def test_shapes_pay_as_long_as_the_iterations_save_what_they_cost(ask: Ask) -> None:
    gains, extras = np.array([2.1, 2.0, 1.9, 1.95]), np.arange(4.0)
    records = [
        _visiting(each, [20 + each.benchmark * (ms + extra) for ms in (100, 40)], [9, 9])
        for block, (gain, extra) in enumerate(zip(gains.tolist(), extras.tolist(), strict=True))
        for each in make_pair(block, 10.0, 10.0 - gain)
    ]
    (row,) = ask("break_even", records, iterations=1000)
    gain_margin, extra_margin = (stats.t.ppf(0.975, 3) * stats.sem(x) for x in (gains, extras))
    first, later = 100 + extras.mean(), 40 + extras.mean()

    def pays(sign: int) -> int:
        saved = 1000 * (gains.mean() + sign * gain_margin)
        return int(1 + (saved - first + sign * extra_margin) / (later - sign * extra_margin))

    names = ("shapes_low", "shapes_that_pay", "shapes_high")
    assert [row[name] for name in names] == [pays(-1), pays(0), pays(1)]
    assert pays(-1) < pays(0) < pays(1)
    (row,) = ask("break_even", [], iterations=10)
    assert row["shapes_that_pay"] == 0


@pytest.mark.parametrize(
    ("candidate_ms", "changes", "shapes"),
    [
        (8.0, {}, 4),
        (12.0, {}, None),
        (8.0, {"loop_kind": "open"}, None),
        (8.0, {"device": "cpu"}, None),
    ],
)
def test_of_one_shape_nobody_knows_what_others_cost(
    ask: Ask, candidate_ms: float, changes: dict[str, object], shapes: int | None
) -> None:
    records = [each for pair in _pairs(candidate_ms, **changes) for each in pair]
    (row,) = ask("break_even", records, iterations=1000)
    assert row["shapes_that_pay"] == row["shapes_low"] == shapes, "each as much as the first"
    assert row["shapes_high"] is None


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
