"""Verdicts of many cells and sweeps: what is pooled, when a cell is decided, and what is said of all."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from cudnn_sweep.analysis.results.verdicts import Verdict, more_blocks
from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.analysis.store.store import Store, open_store
from tests.analysis.conftest import AskAbout, cells_together, changed, in_cell, make_pair
from tests.analysis.results.test_verdicts import in_turns, scattered

EQUAL_PROCESSES = Path(__file__).parents[3] / "docs/results/h200-2026-11-24/turns"
UNTIL = [3, 5]
NOISE = (0.99, 1.0, 1.01)


def sweep_of(sweep_id: str, blocks: int, looks: list[int] | None) -> list[RunRecord]:
    """Blocks in which the candidate takes 20% longer."""
    pairs = [
        make_pair(n, 10.0, 12.0 * NOISE[n % 3], sweep_id=sweep_id, looks=looks)
        for n in range(blocks)
    ]
    return list(chain(*pairs))


def alternating() -> Iterator[RunRecord]:
    """Every second block in turns."""
    for block in range(6):
        for record, ms in zip(make_pair(block, 10.0, 12.0), (10.0, 11.0), strict=True):
            turn = {"in_turns": True, "steady_wall_samples_ms": [ms], "steady_wall_rounds": [0]}
            yield replace(record, **turn) if block % 2 else record  # type: ignore[arg-type]


def two_in_turns(spread: float, *, launch_bound: bool | None = False) -> Iterator[RunRecord]:
    """Whose rounds scatter by this much."""
    rounds = (1 - 2 * spread, 1 - spread, 1.0, 1 + spread, 1 + 2 * spread)
    for n, ms in enumerate((9.5, 9.51)):
        pair = make_pair(n, 10.0, ms, launch_bound=launch_bound)
        yield from in_turns(pair, [10.0] * 5, [ms * x for x in rounds])


def with_logs(logs: list[float], **columns: Any) -> list[RunRecord]:
    return [replace(record, **columns) for record in chain(*scattered(logs))]


def with_a_stray(block: int, records: list[RunRecord]) -> list[RunRecord]:
    """Its candidate chose another kernel than the others."""
    return [
        replace(each, kernels_hash="kernels-other")
        if each.benchmark and each.block == block
        else each
        for each in records
    ]


def marked(ends: str, shards: str) -> list[RunRecord]:
    """Four blocks, of which each ends its launch or not (0, 1), in a shard; the last row is of a config besides."""
    rows = [
        replace(row, shard=int(shards[row.block]), ends_launch=False)
        for row in sweep_of("until", 4, UNTIL)
    ]
    besides = [
        replace(
            row,
            trial_id=f"{row.trial_id} besides",
            attempt_id=f"{row.attempt_id} besides",
            benchmark_limit=3,
            ends_launch=ends[row.block] == "1",
            ended_at=row.ended_at + timedelta(seconds=9),
        )
        for row in rows
        if row.benchmark
    ]
    return rows + besides


# of each block whether it ends a launch, and its shard; how many blocks count
MARKS = {
    "runs": ("0000", "1111", 3),
    "has ended": ("0001", "1111", 4),
    "was resumed": ("0100", "1111", 3),
    "one shard of two runs": ("0010", "1112", 3),
    "both shards have ended": ("0011", "1112", 4),
}
NOISY = np.log([0.90, 0.95, 0.93, 0.88, 0.97]).tolist()
ON_CPU: dict[str, object] = {"device": "cpu", "compute_cache": None}
ALIKE = [0.002, -0.002, 0.001, -0.001, 0.0]
SCATTER = {mean: [mean - 0.06, mean + 0.02, mean, mean + 0.04] for mean in (-0.08, 0.08, 0.01)}
# logs of the blocks, and before the first look: verdict, in words, blocks that are lacking
FEW: list[tuple[list[float], str, str, int | None]] = [
    ([-2.04, -2.05], "so_far_faster", "so far faster (2 blocks)", 1),
    ([0.20, 0.21], "so_far_slower", "so far slower (2 blocks)", 1),
    ([-2.0], "undecided", "not decided yet (1 block)", 2),
    ([-0.020, -0.021], "undecided", "not decided yet (2 blocks)", 1),  # beyond 1, within 3%
    ([-0.9, 0.7, -0.1], "inconclusive", "inconclusive", None),
]

# The cells of one store.
CELLS = {
    "beside one side of looks": [
        *sweep_of("fixed", 3, None),
        *(row for row in sweep_of("until", 2, UNTIL) if not row.benchmark),
    ],
    **{f"{n} begun": sweep_of("until", n, UNTIL) for n in range(1, 6)},
    **{
        f"4 fixed, {n} begun": sweep_of("fixed", 4, None) + sweep_of("until", n, UNTIL)
        for n in range(2, 6)
    },
    **{f"in turns, {spread}": [*two_in_turns(spread)] for spread in (0.0, 0.1)},
    "in turns, device time unknown": [*two_in_turns(0.0, launch_bound=None)],
    "every second in turns": [*alternating()],
    **{name: marked(ends, shards) for name, (ends, shards, _) in MARKS.items()},
    "noisy": with_logs(NOISY),
    # of other settings, for what single processes chose widens the intervals of cells beside it
    "choosing": with_a_stray(
        3, with_logs([-0.35, -0.36, -0.35, 0.05, -0.34, -0.36], deterministic=True)
    ),
    "alike": with_logs(ALIKE),
    "at the minimum effect": with_logs([-0.02, 0.08, np.log(1.03) + 1e-4]),
    "open": with_logs([0.02, 0.10, 0.08, 0.12]),
    **{f"scatter about {mean}": with_logs(logs) for mean, logs in SCATTER.items()},
    **{f"few: {logs}": with_logs(logs, looks=[3, 5, 8, 12, 20]) for logs, *_ in FEW},
    "cannot matter": with_logs([0.0, 0.0], device="cpu", warnings=["throttled"], looks=UNTIL),
}


@pytest.fixture(scope="module")
def ask_about(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskAbout]:
    with cells_together(tmp_path_factory.mktemp("decisions"), CELLS) as about:
        yield about


def test_twins_are_a_contrast_of_their_own(store: Store) -> None:
    blocks = [make_pair(block, 10.0, 12.0, device="cpu") for block in range(4)]
    for number, pair in enumerate(blocks[1:]):
        twin = replace(pair[0], trial_id=f"twin-{number}", twin=1, steady_wall_ms=10.1)
        pair.append(twin)
    blocks[3][2] = replace(blocks[3][2], status="crash")
    store.write(*chain(*blocks))
    (verdict,) = Verdict.of(store, field="twin", baseline="0", candidate="1")
    assert (verdict.contrast, verdict.wall_verdict) == ("twin: 0 → 1", "equivalent")
    assert verdict.no_effect_reason is None, "even without CUDA"
    assert (verdict.blocks, verdict.unpaired_blocks) == (2, 1), "one block has no twin"
    assert "benchmark=false" in verdict.other_settings


@pytest.mark.slow
def test_sweeps_of_one_environment_are_pooled_and_others_kept_apart(store: Store) -> None:
    for sweep_id, software in [("n1", "old"), ("n2", "old"), ("n3", "new")]:
        for block in range(2):
            for record in make_pair(block, 10.0, 12.0, sweep_id=sweep_id, software_hash=software):
                store.write(record)
    assert {each.software_hash: each.blocks for each in Verdict.of(store)} == {"old": 4, "new": 2}
    assert [each.blocks for each in Verdict.of(store, "n1")] == [2]


def test_looks_concern_only_a_contrast_of_which_the_sweep_has_both_sides(
    ask_about: AskAbout,
) -> None:
    (row,) = ask_about("beside one side of looks", "helps_or_hurts")
    assert (row["wall_verdict"], row["error_share"]) == ("hurts", 1)
    assert (row["blocks"], row["unpaired_blocks"]) == (3, 2)


@pytest.mark.parametrize(
    ("begun", "rest", "counted", "at_look"),
    [(2, 1.0, 2, 0.4), (3, 1.0, 3, 0.4), (4, 0.6, 3, 0.4), (5, 0.6, 5, 0.6)],
)
def test_several_sweeps_of_a_cell_spend_the_mean_over_its_blocks_of_their_shares(
    ask_about: AskAbout, begun: int, rest: float, counted: int, at_look: float
) -> None:
    (row,) = ask_about(f"4 fixed, {begun} begun", "helps_or_hurts")
    assert (row["wall_verdict"], row["blocks"]) == ("hurts", 4 + begun)
    assert row["error_share"] == pytest.approx((4 + begun * rest) / (4 + begun), abs=1e-4)
    (row,) = ask_about(f"4 fixed, {begun} begun", "helps_or_hurts", is_over=False)
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
    ask_about: AskAbout, begun: int, is_over: bool, verdict: str, counted: int, share: float
) -> None:
    only = {} if is_over else {"is_over": False}
    (row,) = ask_about(f"{begun} begun", "helps_or_hurts", **only)
    assert (row["wall_verdict"], row["blocks"]) == (verdict, counted)
    assert row["error_share"] == pytest.approx(share)


@pytest.mark.parametrize("name", MARKS)
def test_a_sweep_is_over_once_the_last_row_of_each_of_its_shards_says_so(
    ask_about: AskAbout, name: str
) -> None:
    (row,) = ask_about(name, "helps_or_hurts")
    counted = MARKS[name][-1]
    assert (row["wall_verdict"], row["blocks"]) == ("hurts", counted)
    assert row["error_share"] == pytest.approx(0.6 if counted == 4 else 0.4)
    (asked,) = ask_about(name, "helps_or_hurts", is_over=True)
    assert asked["blocks"] == 4


@pytest.mark.parametrize(("spread", "verdict"), [(0.0, "helps"), (0.1, "undecided")])
def test_two_blocks_in_turns_borrow_what_others_scatter_by_or_what_their_rounds_do(
    ask_about: AskAbout, spread: float, verdict: str
) -> None:
    (row,) = ask_about(f"in turns, {spread}", "helps_or_hurts")
    assert row["wall_verdict"] == verdict
    if not spread:
        logs = np.log([0.95, 0.951])
        se = np.sqrt((np.var(logs) * 2 + 0.003**2) / 2 / 2)
        high = logs.mean() + stats.t.isf(0.025, 2) * se
        assert np.log(row["ratio_high"]) == pytest.approx(high, rel=1e-6)


def test_a_loop_of_unknown_device_time_borrows_as_one_that_waits_for_the_cpu(
    ask_about: AskAbout,
) -> None:
    (row,) = ask_about("in turns, device time unknown", "helps_or_hurts")
    logs = np.log([0.95, 0.951])
    se = np.sqrt((np.var(logs) * 2 + 0.01**2) / 2 / 2)
    high = logs.mean() + stats.t.isf(0.025, 2) * se
    assert np.log(row["ratio_high"]) == pytest.approx(high, rel=1e-6)


@pytest.mark.slow
def test_the_pairs_of_equal_processes_of_the_validation_read_equivalent() -> None:
    """Their device time is not known."""
    asked = {"field": "twin", "baseline": "0", "candidate": "1"}
    rows = Verdict.of(open_store(str(EQUAL_PROCESSES)), "aa", **asked)
    assert [(row.wall_verdict, row.launch_bound) for row in rows] == [("equivalent", None)] * 16
    assert all(row.ratio_low < 1 < row.ratio_high for row in rows)


def test_cells_that_cannot_have_an_effect_hide_none_of_the_others(
    ask_about: AskAbout, store: Store
) -> None:
    assert [row["wall_verdict"] for row in ask_about("noisy", "helps_or_hurts")] == ["helps"]
    beside = [
        in_cell(record, f"cpu-{cell}")
        for cell in range(60)
        for block in range(2)
        for record in make_pair(block, 10.0, 10.0 + block, **ON_CPU)
    ]
    store.write(*with_logs(NOISY), *beside)
    found = {row.cell_id: row.wall_verdict for row in Verdict.of(store)}
    assert found.pop("cell-a") == "helps"
    assert len(found) == 60 and set(found.values()) == {"no_effect"}


def test_no_verdict_mixes_turns_with_processes_one_after_another(ask_about: AskAbout) -> None:
    found = {row["in_turns"]: row for row in ask_about("every second in turns", "helps_or_hurts")}
    assert {turns: row["blocks"] for turns, row in found.items()} == {True: 3, False: 3}
    assert found[True]["ratio"] == pytest.approx(1.1)
    assert found[False]["ratio"] == pytest.approx(1.2)


def test_as_many_blocks_as_are_needed_decide(ask_about: AskAbout, tmp_path: Path) -> None:
    """Where the scatter and the mean stay what they were."""
    more = {}
    for mean, logs in SCATTER.items():
        (row,) = ask_about(f"scatter about {mean}", "helps_or_hurts")
        assert row["wall_verdict"] == "inconclusive", mean
        assert 1 <= row["blocks_needed"] < 50, mean
        more[str(mean)] = with_logs(logs * (1 - (-row["blocks_needed"] // len(logs))))
    with cells_together(tmp_path, more) as about:
        for cell in more:
            (row,) = about(cell, "helps_or_hurts")
            assert row["wall_verdict"] in ("helps", "hurts", "equivalent"), cell
            assert row["blocks_needed"] is None, cell


def test_a_verdict_tells_the_choices_apart(ask_about: AskAbout) -> None:
    (row,) = ask_about("choosing", "helps_or_hurts")
    assert row["by_choice"] == "usually 0.70; in 1 of 6 processes 1.05"
    most = stats.binomtest(1, 6).proportion_ci(method="exact").high
    assert row["ratio_high"] == pytest.approx(np.exp(-0.352 + most * 0.402), rel=0.01)
    assert row["wall_verdict"] == "helps"


def test_what_was_not_seen_asks_for_more_blocks(ask_about: AskAbout, store: Store) -> None:
    """Where cells of the same settings show that there is something to see."""
    (alone,) = ask_about("alike", "helps_or_hurts")
    assert (alone["wall_verdict"], alone["by_choice"]) == ("equivalent", None)
    store.write(*(in_cell(each, "cell-0") for each in with_logs(ALIKE)))
    strayed = with_a_stray(2, with_logs([*ALIKE[:2], ALIKE[2] + 0.1, *ALIKE[3:]]))
    store.write(*(in_cell(each, f"cell-{n}") for n in (1, 2, 3) for each in strayed))
    alike = next(verdict for verdict in Verdict.of(store) if verdict.cell_id == "cell-0")
    assert alike.wall_verdict == "inconclusive"
    assert alike.blocks_needed is not None and alike.blocks_needed < 20
    assert alike.by_choice is not None
    assert alike.by_choice.startswith(
        "all 5 processes chose the same kernels; up to 52% may choose others"
    )


def test_a_mean_at_the_minimum_effect_does_not_tell_how_many_would_decide(
    ask_about: AskAbout,
) -> None:
    (row,) = ask_about("at the minimum effect", "helps_or_hurts")
    assert (row["wall_verdict"], row["blocks_needed"]) == ("inconclusive", None)


@pytest.mark.parametrize(("logs", "verdict", "words", "lacking"), FEW)
def test_before_the_first_look_a_cell_says_what_it_looks_like(
    ask_about: AskAbout, logs: list[float], verdict: str, words: str, lacking: int | None
) -> None:
    (row,) = ask_about(f"few: {logs}", "helps_or_hurts", is_over=False)
    assert (row["wall_verdict"], row["wall_in_words"]) == (verdict, words)
    (state,) = ask_about(f"few: {logs}", "decided")
    if lacking:
        assert (row["blocks_needed"], state["state"]) == (lacking, "open")
        assert row["device_verdict"] != "inconclusive"


def test_a_setting_that_cannot_matter_is_decided_whatever_its_blocks_met(
    ask_about: AskAbout,
) -> None:
    (row,) = ask_about("cannot matter", "helps_or_hurts")
    assert row["wall_in_words"] == "no_effect (no_cuda)"
    assert [row["state"] for row in ask_about("cannot matter", "decided")] == ["no_effect"]


def test_what_would_decide_the_nearest_cell_is_said(ask_about: AskAbout) -> None:
    (row,) = ask_about("open", "helps_or_hurts")
    verdict = Verdict(**row)
    (line,) = more_blocks([verdict, changed(verdict, blocks_needed=1)])
    assert line == "About 1 more block would decide the first of 2 open cells."
    assert list(more_blocks([changed(verdict, blocks_needed=None)])) == []
