"""`advice`: what a job of so many steps gains, against stores whose truth is worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.asking.queries import load_query
from cudnn_sweep.analysis.storing.schema import ComputedTensor, ListedShape, RunRecord
from cudnn_sweep.analysis.storing.store import open_store
from tests.analysis.conftest import Ask, make_pair

if TYPE_CHECKING:
    from pathlib import Path


ALIKE = ((10.0, 10.01), (10.1, 10.09), (9.9, 9.9), (10.0, 10.0))
FASTER = ((10.0, 8.0), (10.02, 8.02), (9.98, 7.98), (10.0, 8.0))
EMPTY_MS, WARM_MS = 2030.0, 230.0  # the candidate's first call
ONE_TIME_S = 0.5


def _blocks(
    times: tuple[tuple[float, float], ...] = FASTER,
    on: dict[str, Any] | None = None,
    **changes: object,
) -> list[RunRecord]:
    """Every second block meets an empty compute cache. No loop waits for the CPU. `on`: what the candidates have."""
    records = []
    for block, (baseline_ms, candidate_ms) in enumerate(times):
        is_empty = block % 2 == 0
        state: dict[str, object] = {"compute_cache": "empty" if is_empty else "warm"}
        for record in make_pair(
            block, baseline_ms, candidate_ms, launch_bound=False, **state | changes
        ):
            first_ms = (EMPTY_MS if is_empty else WARM_MS) if record.benchmark else 30.0
            made = _cold(record, first_ms * (1 + block / 1000))
            records.append(replace(made, **on) if on and made.benchmark else made)
    return records


def _cold(record: RunRecord, *firsts_ms: float) -> RunRecord:
    assert record.cold is not None
    met = [
        replace(record.cold[0], shape=[8, 3, 32 + place, 32], first_ms=first_ms)
        for place, first_ms in enumerate(firsts_ms)
    ]
    return replace(record, cold=met, distinct_shapes=len(met), regime_shapes=len(met))


def _asked(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The row of the start that was asked for; the other one is there too."""
    first, other = rows
    assert (first["asked"], other["asked"]) == (True, False)
    assert {first["start"], other["start"]} == {"container", "warm"}
    return first


def test_the_whole_time_is_the_start_and_the_steps_after_the_first(ask: Ask) -> None:
    row = _asked(ask("advice", _blocks(), steps=1001))
    first_s = (30 * 1.001 / 1000, EMPTY_MS * 1.001 / 1000)  # of blocks 0 and 2
    assert row["baseline_s"] == pytest.approx(ONE_TIME_S + first_s[0] + 10.0, rel=1e-5)
    assert row["candidate_s"] == pytest.approx(ONE_TIME_S + first_s[1] + 8.0, rel=1e-5)
    assert row["extra_start_s"] == pytest.approx(first_s[1] - first_s[0])
    assert row["ratio"] == pytest.approx(row["candidate_s"] / row["baseline_s"])
    assert row["saved_s"] == pytest.approx(row["baseline_s"] - row["candidate_s"])
    assert row["saved_s_low"] == pytest.approx(row["baseline_s"] * (1 - row["ratio_high"]))
    assert row["break_even_steps"] == pytest.approx(1 + 2002 / 2, rel=2e-3)
    assert row["break_even_low"] < row["break_even_steps"] < row["break_even_high"]
    assert row["candidate_cache_saves_s"] == pytest.approx(1.8, rel=1e-2)
    assert row["baseline_cache_saves_s"] == pytest.approx(0.0, abs=1e-3)


SLOWER = ((10.0, 10.5), (10.02, 10.52), (9.98, 10.48), (10.0, 10.5))
NO_DIFFERENCE = {"advice": "no difference", "setting": "off", "why": "the difference is below 2%"}
DOES_NOT_FIT = {"setting": "off", "why": "on runs out of memory in 4 of 4 blocks"}


@pytest.mark.parametrize(
    ("records", "job", "told"),
    [
        # 2 s more at the start, 2 ms less a step; with a warm cache 0.2 s more
        (_blocks(), {"steps": 500}, {"advice": "off", "setting": "off"}),
        (_blocks(), {"steps": 5000}, {"advice": "on", "setting": "on"}),
        (_blocks(), {"steps": 500, "state": "warm"}, {"advice": "on", "setting": "on"}),
        (_blocks(), {"steps": 20, "state": "warm"}, {"advice": "off", "setting": "off"}),
        # two starts in each state tell too little
        (_blocks(), {"steps": 1002}, {"advice": "undecided", "setting": "off"}),
        (_blocks(), {"hours": 0.5}, {"job_steps": pytest.approx(1800 / 0.010, rel=1e-4)}),
        (_blocks(SLOWER), {"steps": 500}, {"advice": "off", "why": "starting takes 2 s longer"}),
        (_blocks(SLOWER), {"steps": 50_000}, {"advice": "off", "why": "steps take 5.0% more"}),
        ([_cold(each, 30.0) for each in _blocks(ALIKE)], {}, NO_DIFFERENCE),
        ([_cold(each, 30.0) for each in _blocks(ALIKE)], {}, {"break_even_steps": None}),
        (
            _blocks(device="cpu", compute_cache=None),
            {},
            {"advice": "no difference", "why": "there is no GPU"},
        ),
        (_blocks(on={"status": "out_of_memory"}), {}, DOES_NOT_FIT | {"advice": "does not fit"}),
        (
            _blocks(on={"status": "crash", "message": "signal 11"}),
            {},
            {"advice": "fails", "setting": "off"},
        ),
    ],
)
def test_a_job_is_advised_by_what_it_gains(
    ask: Ask, records: list[RunRecord], job: dict[str, Any], told: dict[str, Any]
) -> None:
    row = _asked(ask("advice", records, **job))
    assert {name: row[name] for name in told} == told, row["why"]


@pytest.mark.parametrize(
    ("candidate_ms", "advice"), [(8.0, "on"), (9.8, "undecided"), (12.5, "off")]
)
def test_one_block_decides_where_settings_differ_much(
    ask: Ask, candidate_ms: float, advice: str
) -> None:
    """It is taken to scatter as blocks do elsewhere: 0.3%, as if by one degree of freedom."""
    row = _asked(ask("advice", _blocks(((10.0, candidate_ms),)), steps=100_000))
    assert row["advice"] == advice
    assert (row["ratio_low"] + row["ratio_high"]) / 2 == pytest.approx(row["ratio"], rel=0.05)


def test_half_of_an_unrelated_search_counts_and_the_interval_reaches_both_ends(ask: Ask) -> None:
    """The candidate's one-time cost is 0.8 s higher."""
    row = _asked(ask("advice", _blocks(on={"one_time_s": ONE_TIME_S + 0.8}), steps=1000))
    extra_s = (EMPTY_MS - 30) * 1.001 / 1000
    assert row["extra_start_s"] == pytest.approx(extra_s + 0.4)
    assert row["extra_start_s_low"] < extra_s
    assert row["extra_start_s_high"] > extra_s + 0.8


def test_scatter_decides_nothing_and_says_how_long_it_takes(ask: Ask) -> None:
    times = ((10.0, 9.0), (10.0, 10.5), (10.0, 9.6), (10.0, 8.4))
    row = _asked(ask("advice", _blocks(times), steps=100_000))
    assert (row["advice"], row["setting"]) == ("undecided", "off")
    assert row["why"] == f"about {row['blocks_needed']} more blocks would decide"
    assert row["minutes_needed"] == pytest.approx(row["blocks_needed"] * 12 / 60)


@pytest.mark.parametrize(
    ("blocks", "at_a_look", "at_the_last"),
    [(1, 0.4, 0.4), (2, 0.4, 1), (3, 0.2, 0.6), (4, 0.2, 0.4)],
)
def test_the_last_look_spends_what_those_before_left_of_the_error(
    ask: Ask, blocks: int, at_a_look: float, at_the_last: float
) -> None:
    looks = [2, 3, 5, 8, 12, 20]
    stored = _blocks(FASTER[:blocks], looks=looks)
    row = _asked(ask("advice", stored, is_over=False))
    assert row["error_share"] == pytest.approx(at_a_look)
    row = _asked(ask("advice", stored))
    assert row["error_share"] == pytest.approx(at_the_last)


def test_what_a_look_leaves_open_may_be_decided_when_time_is_up(ask: Ask) -> None:
    stored = _blocks(((10.0, 9.2), (10.0, 8.7)), looks=[3, 5, 8, 12, 20])
    asked = _asked(ask("advice", stored, steps=100_000, is_over=False))
    assert asked["advice"] == "undecided"
    row = _asked(ask("advice", stored, steps=100_000))
    assert row["advice"] == "on" and row["mean_ratio_high"] < 1


def test_more_than_the_limit_of_memory_does_not_fit(ask: Ask) -> None:
    records = _blocks(cold_peak_reserved_bytes=2**30, on={"cold_peak_reserved_bytes": 6 * 2**30})
    for limit_gib, advice in ((8.0, "on"), (4.0, "does not fit"), (0.5, "does not fit")):
        row = _asked(ask("advice", records, memory_limit_gib=limit_gib))
        assert row["advice"] == advice
        assert row["candidate_first_bytes"] - row["baseline_first_bytes"] == 5 * 2**30
        records = []


def test_memory_that_time_does_not_pay_for_is_told(ask: Ask) -> None:
    records = [_cold(each, 30.0) for each in _blocks(ALIKE, on={"cold_peak_reserved_bytes": 2**34})]
    row = _asked(ask("advice", records))
    assert (row["advice"], row["setting"]) == ("no difference", "off")
    assert row["why"] == "no difference in time, on takes 16.0 GiB more memory"


def test_each_step_of_an_open_loop_has_a_search(ask: Ask) -> None:
    times = tuple((3.0 + block / 100, 30.0 + block / 10) for block in range(4))
    records = _blocks(times, loop_kind="open", steady_iterations=64)
    row = _asked(ask("advice", records, steps=1000))
    assert (row["advice"], row["break_even_steps"]) == ("off", None)
    assert row["candidate_s"] == pytest.approx(
        ONE_TIME_S + EMPTY_MS * 1.001 / 1000 + 999 * 0.03015, rel=1e-3
    )


LISTED = [
    ListedShape(shape=[8, 3, 32, 32], count=98),
    ListedShape(shape=[8, 3, 33, 32], count=1),
    ListedShape(shape=[8, 3, 34, 32], count=1),
]


@pytest.mark.parametrize("loop_kind", ["closed", "open"])
def test_listed_shapes_are_met_as_often_as_draws_meet_them(ask: Ask, loop_kind: str) -> None:
    """Two of three were met cold; the third costs what the second did."""
    records = [
        replace(
            _cold(record, *((1000.0, 400.0) if record.benchmark else (30.0, 20.0))),
            regime="listed shapes.csv",
            listed_shapes=LISTED,
            loop_kind=loop_kind,
        )
        for record in _blocks()
    ]
    steps = 50
    row = _asked(ask("advice", records, steps=steps))
    met = sum(1 - (1 - each.count / 100) ** steps for each in LISTED)
    assert row["first_calls"] == pytest.approx(met)
    assert 1.7 < met < 1.9
    # an open loop's time per step has searches in it: its second calls have none (9 ms, each)
    step_s = 0.008 if loop_kind == "closed" else 0.009
    assert row["candidate_s"] == pytest.approx(
        ONE_TIME_S + 1.0 + (met - 1) * 0.4 + (steps - met) * step_s, rel=1e-3
    )
    assert row["new_shape_ms"] == pytest.approx(380)


def test_results_that_differ_between_processes_are_counted_by_tensor(ask: Ask) -> None:
    def computed(record: RunRecord) -> list[ComputedTensor]:
        assert record.computed is not None
        (one,) = record.computed
        bits = f"bits-{record.block}" if record.benchmark else "bits"
        return [
            replace(one, tensor="output"),
            replace(one, tensor="gradient of conv1.weight", fingerprint=bits),
        ]

    records = [
        replace(record, computed=computed(record), fingerprint=computed(record)[1].fingerprint)
        for record in _blocks()
    ]
    row = _asked(ask("advice", records))
    assert (row["baseline_results"], row["candidate_results"]) == (1, 4)
    assert row["candidate_varies_in"] == ["gradient of conv1.weight"]


def test_more_runs_have_a_narrower_interval_and_the_mean_the_narrowest(ask: Ask) -> None:
    records = _blocks()
    one = _asked(ask("advice", records, runs=1))
    many = _asked(ask("advice", [], runs=10_000))
    assert one["ratio_low"] < many["ratio_low"] < one["ratio"] < many["ratio_high"]
    assert many["ratio_high"] < one["ratio_high"]
    assert many["ratio_high"] == pytest.approx(many["mean_ratio_high"], rel=1e-3)
    assert one["mean_ratio_high"] == many["mean_ratio_high"]


def test_as_many_jobs_lie_in_the_interval_as_it_says(tmp_path: Path) -> None:
    """Starts scatter by 10%, a block's level by 3%, pairs by 0.5%; three runs each way, unpaired."""
    draw = np.random.default_rng(25)
    cells, blocks, steps, runs = 150, 6, 1000, 3
    records: list[RunRecord] = []
    store = open_store(str(tmp_path / "results"))
    for cell in range(cells):
        for block in range(blocks):
            level = np.exp(0.03 * draw.standard_normal())
            scatter = np.exp(0.005 * draw.standard_normal())
            pair = make_pair(
                block,
                10 * level,
                8 * level * scatter,
                launch_bound=False,
                compute_cache="empty" if block % 2 == 0 else "warm",
                cell_id=f"cell-{cell}",
                problem=f"problem-{cell}",
            )
            for record in pair:
                first_ms = (1500 if record.benchmark else 100) * np.exp(
                    0.1 * draw.standard_normal()
                )
                trial = f"{cell}-{record.trial_id}"
                cold = _cold(record, float(first_ms))
                records.append(replace(cold, trial_id=trial, attempt_id=trial, kernels_hash="same"))
    store.write(*records)
    question = load_query("advice")
    with open_database(store) as database:
        found = database.query(question.sql, question.values({"steps": steps, "runs": runs}))
    rows = [row for row in found.to_pylist() if row["asked"]]
    assert len(rows) == cells

    def job_s(step_ms: float, first_ms: float) -> float:
        one = np.exp(draw.standard_normal((runs, 2)) * (0.03, 0.1)) * (step_ms * steps, first_ms)
        return ONE_TIME_S + float(one.sum(axis=1).mean()) / 1000

    inside = []
    for row in rows:
        actual = job_s(8.0, 1500.0) / job_s(10.0, 100.0)
        inside.append(row["ratio_low"] <= actual <= row["ratio_high"])
    assert np.mean(inside) > 0.92  # 95%, less two standard errors over so many cells
