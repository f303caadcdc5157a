"""Verdicts of many cells and sweeps: what is pooled, when a cell is decided, and what is said of all."""

from collections.abc import Callable
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from scipy import stats

from cudnn_sweep.analysis.answering.verdicts import (
    Verdict,
    more_blocks,
    verdicts,
)
from cudnn_sweep.analysis.storing.schema import RunRecord, to_table
from cudnn_sweep.analysis.storing.store import Store
from tests.analysis.answering.test_verdicts import in_turns, scattered
from tests.analysis.conftest import Ask, changed, in_cell, make_pair

Judge = Callable[..., Verdict]
UNTIL = [3, 5]
NOISE = (0.99, 1.0, 1.01)


@pytest.fixture
def judge(store: Store) -> Callable[..., Verdict]:
    """The one verdict over some blocks."""

    def judged(blocks: list[list[RunRecord]], **values: str | float) -> Verdict:
        store.write(*chain(*blocks))
        (verdict,) = verdicts(store, None, **values)
        return verdict

    return judged


def test_twins_are_a_contrast_of_their_own(judge: Judge) -> None:
    blocks = [make_pair(block, 10.0, 12.0, device="cpu") for block in range(4)]
    for number, pair in enumerate(blocks[1:]):
        twin = replace(pair[0], trial_id=f"twin-{number}", twin=1, steady_wall_ms=10.1)
        pair.append(twin)
    blocks[3][2] = replace(blocks[3][2], status="crash")
    verdict = judge(blocks, field="twin", baseline="0", candidate="1")
    assert (verdict.contrast, verdict.wall_verdict) == ("twin: 0 → 1", "equivalent")
    assert verdict.no_effect_reason is None, "even without CUDA"
    assert (verdict.blocks, verdict.unpaired_blocks) == (2, 1), "one block has no twin"
    assert "benchmark=false" in verdict.other_settings


def test_sweeps_of_one_environment_are_pooled_and_others_kept_apart(store: Store) -> None:
    for sweep_id, software in [("n1", "old"), ("n2", "old"), ("n3", "new")]:
        for block in range(2):
            for record in make_pair(block, 10.0, 12.0, sweep_id=sweep_id, software_hash=software):
                store.write(record)
    assert {each.software_hash: each.blocks for each in verdicts(store)} == {"old": 4, "new": 2}
    assert [each.blocks for each in verdicts(store, "n1")] == [2]


def sweep_of(sweep_id: str, blocks: int, looks: list[int] | None) -> list[RunRecord]:
    """Blocks in which the candidate takes 20% longer."""
    pairs = [
        make_pair(n, 10.0, 12.0 * NOISE[n % 3], sweep_id=sweep_id, looks=looks)
        for n in range(blocks)
    ]
    return list(chain(*pairs))


def test_looks_concern_only_a_contrast_of_which_the_sweep_has_both_sides(ask: Ask) -> None:
    until = sweep_of("until", 2, UNTIL)
    one_side = [row for row in until if not row.benchmark]
    (row,) = ask("helps_or_hurts", sweep_of("fixed", 3, None) + one_side)
    assert (row["wall_verdict"], row["error_share"]) == ("hurts", 1)
    assert (row["blocks"], row["unpaired_blocks"]) == (3, 2)


@pytest.mark.parametrize(
    ("begun", "rest", "counted", "at_look"),
    [(2, 1.0, 2, 0.4), (3, 1.0, 3, 0.4), (4, 0.6, 3, 0.4), (5, 0.6, 5, 0.6)],
)
def test_several_sweeps_of_a_cell_spend_the_mean_over_its_blocks_of_their_shares(
    ask: Ask, begun: int, rest: float, counted: int, at_look: float
) -> None:
    rows = sweep_of("fixed", 4, None) + sweep_of("until", begun, UNTIL)
    (row,) = ask("helps_or_hurts", rows)
    assert (row["wall_verdict"], row["blocks"]) == ("hurts", 4 + begun)
    assert row["error_share"] == pytest.approx((4 + begun * rest) / (4 + begun), abs=1e-4)
    (row,) = ask("helps_or_hurts", [], is_over=False)
    assert row["blocks"] == 4 + counted, "blocks after the last look wait for the next"
    assert row["error_share"] == pytest.approx((4 + counted * at_look) / (4 + counted), abs=1e-4)


@pytest.mark.parametrize(
    ("begun", "is_over", "verdict", "counted", "share"),
    [
        (2, False, "so_far_slower", 2, 0.4),
        (3, False, "hurts", 3, 0.4),
        (4, False, "hurts", 3, 0.4),
        (5, False, "hurts", 5, 0.6),
        (1, True, "undecided", 1, 0.4),
        (2, True, "hurts", 2, 1.0),
        (4, True, "hurts", 4, 0.6),
    ],
)
def test_the_verdict_of_the_last_look_stands_and_a_sweep_that_is_over_spends_what_is_left(
    ask: Ask, begun: int, is_over: bool, verdict: str, counted: int, share: float
) -> None:
    (row,) = ask("helps_or_hurts", sweep_of("until", begun, UNTIL), is_over=is_over)
    assert (row["wall_verdict"], row["blocks"]) == (verdict, counted)
    assert row["error_share"] == pytest.approx(share)


@pytest.mark.parametrize(("spread", "verdict"), [(0.0, "helps"), (0.1, "undecided")])
def test_two_blocks_in_turns_borrow_what_others_scatter_by_or_what_their_rounds_do(
    ask: Ask, spread: float, verdict: str
) -> None:
    rounds = (1 - 2 * spread, 1 - spread, 1.0, 1 + spread, 1 + 2 * spread)
    blocks = [
        in_turns(make_pair(n, 10.0, ms, launch_bound=False), [10.0] * 5, [ms * x for x in rounds])
        for n, ms in enumerate((9.5, 9.51))
    ]
    (row,) = ask("helps_or_hurts", chain(*blocks))
    assert row["wall_verdict"] == verdict
    if not spread:
        logs = np.log([0.95, 0.951])
        se = np.sqrt((np.var(logs) * 2 + 0.003**2) / 2 / 2)
        high = logs.mean() + stats.t.isf(0.025, 2) * se
        assert np.log(row["ratio_high"]) == pytest.approx(high, rel=1e-6)


def _write(store: Store, pair: list[RunRecord], cell_id: str = "cell-a") -> None:
    store.write(*(in_cell(record, cell_id) for record in pair))


def test_cells_that_cannot_have_an_effect_hide_none_of_the_others(store: Store) -> None:
    noisy = (0.90, 0.95, 0.93, 0.88, 0.97)
    for block, ratio in enumerate(noisy):
        for record in make_pair(block, 10.0, 10.0 * ratio):
            store.write(record)
    assert [row.wall_verdict for row in verdicts(store)] == ["helps"]
    cpu = {"device": "cpu", "compute_cache": None}
    for cell in range(60):
        for block in range(2):
            _write(store, make_pair(block, 10.0, 10.0 + block, **cpu), f"cpu-{cell}")
    found = {row.cell_id: row.wall_verdict for row in verdicts(store)}
    assert found.pop("cell-a") == "helps"
    assert set(found.values()) == {"no_effect"}


def test_no_verdict_mixes_turns_with_processes_one_after_another(store: Store) -> None:
    for block in range(6):
        pair = make_pair(block, 10.0, 12.0)
        for record, ms in zip(pair, (10.0, 11.0), strict=True):
            turn = {"in_turns": True, "steady_wall_samples_ms": [ms], "steady_wall_rounds": [0]}
            store.write(replace(record, **turn) if block % 2 else record)  # type: ignore[arg-type]
    found = {verdict.in_turns: verdict for verdict in verdicts(store)}
    assert {turns: verdict.blocks for turns, verdict in found.items()} == {True: 3, False: 3}
    assert found[True].ratio == pytest.approx(1.1)
    assert found[False].ratio == pytest.approx(1.2)


@pytest.mark.parametrize("mean", [-0.08, 0.08, 0.01])
def test_as_many_blocks_as_are_needed_decide(store: Store, mean: float) -> None:
    """Where the scatter and the mean stay what they were."""
    logs = [mean - 0.06, mean + 0.02, mean, mean + 0.04]
    store.write_part("night-1", to_table(list(chain(*scattered(logs)))))
    (verdict,) = verdicts(store)
    assert verdict.wall_verdict == "inconclusive"
    assert verdict.blocks_needed is not None and 1 <= verdict.blocks_needed < 50
    rounds = 1 - (-verdict.blocks_needed // len(logs))
    more = scattered(logs * rounds)[len(logs) :]
    store.write_part("night-1", to_table(list(chain(*more))))
    (verdict,) = verdicts(store)
    assert verdict.wall_verdict in ("helps", "hurts", "equivalent")
    assert verdict.blocks_needed is None


def test_a_verdict_tells_the_choices_apart(judge: Judge) -> None:
    blocks = scattered([-0.35, -0.36, -0.35, 0.05, -0.34, -0.36])
    baseline, candidate = blocks[3]
    blocks[3] = [baseline, replace(candidate, kernels_hash="kernels-other")]
    verdict = judge(blocks)
    assert verdict.by_choice == "usually 0.70; in 1 of 6 processes 1.05"
    assert verdict.ratio_high is not None
    most = stats.binomtest(1, 6).proportion_ci(method="exact").high
    assert verdict.ratio_high == pytest.approx(np.exp(-0.352 + most * 0.402), rel=0.01)
    assert verdict.wall_verdict == "helps"


@pytest.mark.parametrize("of_strays", [0, 3])
def test_what_was_not_seen_asks_for_more_blocks(store: Store, of_strays: int) -> None:
    """Where cells of the same settings show that there is something to see."""
    logs = [0.002, -0.002, 0.001, -0.001, 0.0]
    for cell in range(of_strays + 1):
        blocks = scattered([log + 0.1 * (cell > 0 and n == 2) for n, log in enumerate(logs)])
        for n, (baseline, candidate) in enumerate(blocks):
            other = "kernels-other" if cell and n == 2 else candidate.kernels_hash
            _write(
                store,
                [baseline, replace(candidate, kernels_hash=other)],
                f"cell-{cell}",
            )
    alike = next(verdict for verdict in verdicts(store) if verdict.cell_id == "cell-0")
    if of_strays:
        assert alike.wall_verdict == "inconclusive"
        assert alike.blocks_needed is not None and alike.blocks_needed < 20
        assert alike.by_choice is not None
        assert alike.by_choice.startswith("one choice in 5 processes; up to 52% may choose another")
    else:
        assert (alike.wall_verdict, alike.by_choice) == ("equivalent", None)


def test_a_mean_at_the_minimum_effect_does_not_tell_how_many_would_decide(judge: Judge) -> None:
    verdict = judge(scattered([-0.02, 0.08, np.log(1.03) + 1e-4]))
    assert (verdict.wall_verdict, verdict.blocks_needed) == ("inconclusive", None)


@pytest.mark.parametrize(
    ("logs", "verdict", "words", "lacking"),
    [
        ([-2.04, -2.05], "so_far_faster", "so far faster (2 blocks)", 1),
        ([0.20, 0.21], "so_far_slower", "so far slower (2 blocks)", 1),
        ([-2.0], "undecided", "not decided yet (1 block)", 2),
        ([-0.020, -0.021], "undecided", "not decided yet (2 blocks)", 1),  # beyond 1, within 3%
        ([-0.9, 0.7, -0.1], "inconclusive", "inconclusive", None),
    ],
)
def test_before_the_first_look_a_cell_says_what_it_looks_like(
    ask: Ask, logs: list[float], verdict: str, words: str, lacking: int | None
) -> None:
    blocks = [
        make_pair(n, 10.0, 10.0 * np.exp(log), looks=[3, 5, 8, 12, 20])
        for n, log in enumerate(logs)
    ]
    (row,) = ask("helps_or_hurts", chain(*blocks), is_over=False)
    assert (row["wall_verdict"], row["wall_in_words"]) == (verdict, words)
    (state,) = ask("decided", [])
    if lacking:
        assert (row["blocks_needed"], state["state"]) == (lacking, "open")
        assert row["device_verdict"] != "inconclusive"


def test_a_setting_that_cannot_matter_is_decided_whatever_its_blocks_met(ask: Ask) -> None:
    changes: dict[str, object] = {"device": "cpu", "warnings": ["throttled"], "looks": [3, 5]}
    (row,) = ask("helps_or_hurts", chain(*(make_pair(n, 10.0, 10.0, **changes) for n in range(2))))
    assert row["wall_in_words"] == "no_effect (no_cuda)"
    assert [row["state"] for row in ask("decided", [])] == ["no_effect"]


def test_what_would_decide_the_nearest_cell_is_said(judge: Judge) -> None:
    verdict = judge(scattered([0.02, 0.10, 0.08, 0.12]))
    (line,) = more_blocks([verdict, changed(verdict, blocks_needed=1)])
    assert line == "About 1 more block would decide one of 2 open cells."
    assert list(more_blocks([changed(verdict, blocks_needed=None)])) == []
