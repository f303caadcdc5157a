"""Verdicts: what counts as a block, what is compared with what, and what is said of it."""

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from cudnn_sweep.analysis.results.verdicts import Verdict, further_lines
from cudnn_sweep.analysis.store.schema import RunRecord, to_table
from cudnn_sweep.analysis.store.store import open_store
from tests.analysis.conftest import in_cell, make_pair

Blocks = list[list[RunRecord]]


def blocks(
    count: int,
    candidate_ms: float = 12.0,
    at: dict[tuple[int, int], dict[str, Any]] | None = None,
    **columns: Any,
) -> Blocks:
    """Pairs of 10 ms and this; `at`: what is otherwise in a block's baseline (0) or candidate (1)."""
    made = [make_pair(n, 10.0, candidate_ms, **columns) for n in range(count)]
    for (block, side), changes in (at or {}).items():
        made[block][side] = replace(made[block][side], **changes)
    return made


def candidates(pairs: Blocks, **columns: Any) -> Blocks:
    """Their second trials with these columns."""
    return [[pair[0], replace(pair[1], **columns), *pair[2:]] for pair in pairs]


def scattered(logs: list[float]) -> Blocks:
    return [make_pair(n, 10.0, 10.0 * np.exp(log)) for n, log in enumerate(logs)]


def in_turns(pair: list[RunRecord], *times_ms: list[float]) -> list[RunRecord]:
    """The pair as processes that took turns, with a time each round."""
    return [
        replace(
            record,
            in_turns=True,
            steady_wall_samples_ms=times,
            steady_wall_rounds=list(range(len(times))),
        )
        for record, times in zip(pair, times_ms, strict=True)
    ]


def both_clocks() -> Blocks:
    return [
        [
            replace(each, launch_bound=True, steady_device_ms=ms)
            for each, ms in zip(make_pair(n, 10.0, 10.0 * wall), (5.0, 5.0 * device), strict=True)
        ]
        for n, (wall, device) in enumerate([(0.99, 0.88), (0.985, 0.885), (0.995, 0.875)] * 2)
    ]


CRASH: dict[str, Any] = {"status": "crash"}
LOST: dict[str, Any] = {"status": "out_of_memory", "steady_wall_ms": None}
THROTTLED: dict[str, Any] = {"warnings": ["throttled"]}
FAILED: dict[str, Any] = {"status": "error", "steady_wall_ms": None}
OPEN: dict[str, Any] = {"loop_kind": "open", "steady_device_ms": None}
ROUNDS: dict[str, Any] = {"steady_device_rounds": [0, 1]}
PLANTED = np.random.default_rng(1).normal(1, 0.02, (8, 2))
RATIOS = np.array([0.80, 0.84, 0.79, 0.83])
# one process in ten takes ten times as long: the mean's interval holds anything

# The cells of one store, and what is said of each.
CASES: dict[str, tuple[Blocks, dict[str, Any]]] = {
    "planted": (
        [make_pair(n, 10 * a, 12 * b) for n, (a, b) in enumerate(PLANTED.tolist())],
        {
            "wall_verdict": "hurts",
            "device_verdict": "hurts",
            "contrast": "benchmark: false → true",
            "baseline_device_ms": float(9 * stats.gmean(PLANTED[:, 0])),
        },
    ),
    "like SciPy's": (scattered(np.log(RATIOS).tolist()), {"wall_verdict": "helps"}),
    "both clocks": (
        both_clocks(),
        {
            "headline": "device time 12% less (12–12%); the loop is CPU-bound: wall time 1% less (1–1%)"
        },
    ),
    "identical times": (
        blocks(3, 10.1),
        {"wall_verdict": "equivalent", "ratio_low": 1.01, "ratio_high": 1.01},
    ),
    "one block": (
        blocks(1, 20.0),
        {"blocks": 1, "wall_verdict": "undecided", "ratio": 2.0, "ratio_low": None},
    ),
    "split over slots and launches": (
        blocks(4, at={(0, 1): {"slot": "GPU-1"}, (1, 1): {"launch_id": "launch-2"}}),
        {"blocks": 2, "split_blocks": 2, "unpaired_blocks": 0},
    ),
    "a trial is lost": (
        blocks(3, at={(0, 1): {**LOST, "loop_kind": None}}),
        {"blocks": 2, "unpaired_blocks": 1},
    ),
    "fails under both": (blocks(3, **FAILED), {"ratio": None, "wall_verdict": "not_measured"}),
    "fails under both, on a CPU": (
        blocks(3, **FAILED, device="cpu"),
        {"ratio": None, "wall_verdict": "not_measured"},
    ),
    "always fails": (
        candidates(blocks(2), **CRASH, loop_kind=None),
        {"blocks": 0, "unpaired_blocks": 2, "ratio": None, "wall_verdict": "fails"},
    ),
    "a twin is no part of it": (
        [*blocks(2), [replace(make_pair(0, 99.0, 9.0)[0], trial_id="twin", twin=1)]],
        {"baseline_ms": 10.0, "unpaired_blocks": 0},
    ),
    "the times of both sides have the ratio": (
        [make_pair(n, 10.0, ms) for n, ms in enumerate((10.0, 10.0, 40.0))],
        {"ratio": 4 ** (1 / 3), "baseline_ms": 10.0, "candidate_ms": 10 * 4 ** (1 / 3)},
    ),
    # the same steps take the same time; the budget ended the baseline before the slow ones
    "open loops are compared over the steps that both made": (
        [
            [
                replace(a, steady_wall_samples_ms=[1.0, 2.0], steady_iterations=2),
                replace(b, steady_wall_samples_ms=[1.0, 2.0, 50.0, 50.0], steady_iterations=4),
            ]
            for a, b in blocks(3, **OPEN)
        ],
        {
            "baseline_ms": 1.5,
            "candidate_ms": 1.5,
            "loop_kind": "open",
            "wall_verdict": "equivalent",
            "device_verdict": None,
        },
    ),
    "an open and a closed loop": (
        candidates(blocks(3, 20.0), loop_kind="open"),
        {"loop_kind": "mixed", "ratio": None, "wall_verdict": "inconclusive"},
    ),
    "no effect": (
        blocks(4, device="cpu", compute_cache=None),
        {
            "no_effect_reason": "no_cuda",
            "wall_verdict": "no_effect",
            "device_verdict": "no_effect",
            "wall_statistical_verdict": "hurts",
            "device_statistical_verdict": "hurts",
        },
    ),
    "without device time": (
        blocks(3, steady_device_ms=None),
        {
            "baseline_device_ms": None,
            "device_ratio": None,
            "device_verdict": None,
            "device_statistical_verdict": None,
        },
    ),
    "device times from two sources": (
        candidates(blocks(3), steady_device_source="profiler"),
        {
            "wall_verdict": "hurts",
            "device_verdict": None,
            "notes": "device times from graph and profiler are not compared",
        },
    ),
    "device times from replays of the step's own graph": (
        candidates(blocks(3), steady_device_source="own_graph"),
        {"device_verdict": "hurts", "notes": None},
    ),
    "an execution that was not in force, and a model that is compiled in parts": (
        blocks(
            4,
            execution="compile",
            graph_breaks=["call to print"],
            at={
                (0, 1): {"status": "error", "message": "execution compile was not in force: x\ny"},
            },
        ),
        {
            "blocks": 3,
            "candidate_failed": 1,
            "notes": "execution compile was not in force: x; graph break: call to print",
        },
    ),
    "most paired trials are launch bound": (
        [
            *candidates(blocks(3, at={(0, 0): {"launch_bound": False}}), launch_bound=None),
            [make_pair(9, 10.0, 12.0, launch_bound=False)[0]],
        ],
        {"launch_bound": True, "blocks": 3, "unpaired_blocks": 1},
    ),
    "no trial knows whether it is launch bound": (
        blocks(2, launch_bound=None),
        {"launch_bound": None},
    ),
    "blocks that met a shared GPU are left out": (
        blocks(
            4,
            at={
                (0, 0): {"warnings": ["shared_gpu"], "steady_wall_ms": 99.0},
                (1, 1): {"warnings": ["power_capped", "shared_gpu"]},
                (2, 1): {"warnings": ["shared_gpu"], "slot": "GPU-1"},
            },
        ),
        {
            "blocks": 1,
            "doubtful_blocks": 2,
            "split_blocks": 1,
            "ratio": 1.2,
            "warnings": ["power_capped", "shared_gpu"],
        },
    ),
    "a power limit or an unsettled clock is no doubt": (
        blocks(
            3,
            at={
                (0, 0): {"warnings": ["power_capped", "clocks_unsettled"]},
                (1, 1): {"warnings": ["power_capped"]},
                (2, 0): {"warnings": None},
                (2, 1): {"warnings": None},
            },
        ),
        {"blocks": 3, "doubtful_blocks": 0, "warnings": ["clocks_unsettled", "power_capped"]},
    ),
    "without warnings": (blocks(1, warnings=None), {"warnings": []}),
    # 8% faster, but 15% slower in every other block, where the GPU slows down under it
    **{
        f"{name} throttled blocks of the baseline choose none": (
            [
                [
                    replace(a, warnings=["throttled"] if n < throttled else []),
                    replace(b, warnings=["throttled"] if n % 2 else []),
                ]
                for n in range(8)
                for a, b in [make_pair(n, 10.0, 11.5 if n % 2 else 9.2)]
            ],
            {
                "blocks": 8,
                "doubtful_blocks": 0,
                "wall_verdict": "inconclusive",
                "ratio": (1.15 * 0.92) ** 0.5,
            },
        )
        for name, throttled in (("no", 0), ("a few", 1))
    },
    "throttled under both sides": (
        blocks(6, 10.0, at={(0, 0): THROTTLED, (0, 1): THROTTLED, (1, 1): THROTTLED}),
        {"blocks": 5, "doubtful_blocks": 1},
    ),
    **{
        f"the candidate alone fails in {failing} of 5": (
            blocks(5, 10.0, at={(n, 1): LOST for n in range(failing)}),
            {
                "baseline_failed": 0,
                "candidate_failed": failing,
                "wall_in_words": said,
                "wall_statistical_verdict": statistical,
            },
        )
        # by Fisher's exact test of processes: p is 0.22, 0.024 and 0.004
        for failing, statistical, said in (
            (2, "equivalent", "equivalent (failed 2 of 5)"),
            (4, "inconclusive", "fails (4 of 5)"),
            (5, "inconclusive", "fails (5 of 5)"),
        )
    },
    "a small difference has a direction": (
        [make_pair(n, 10.0, 9.9 + 0.01 * (n % 2)) for n in range(6)],
        {
            "wall_verdict": "equivalent",
            "surely": "faster",
            "wall_in_words": "equivalent (0.95% faster)",
        },
    ),
    "one crash of twenty hides nothing": (
        blocks(20, 5.0, at={(0, 1): LOST}),
        {"ratio": 0.5, "wall_verdict": "helps", "wall_in_words": "helps (failed 1 of 20)"},
    ),
    "both sides fail alike": (
        blocks(6, 10.0, at={(0, 0): CRASH, (1, 1): CRASH}),
        {"baseline_failed": 1, "candidate_failed": 1, "wall_verdict": "equivalent"},
    ),
    # the host slows down between rounds; a process's own median says nothing of the other's
    "turns are paired round by round": (
        [in_turns(pair, [10.0, 15.0, 30.0], [11.0, 16.5, 33.0]) for pair in blocks(3)],
        {"in_turns": True, "ratio": 1.1, "wall_statistical_verdict": "hurts"},
    ),
    "rounds that only one has do not count": (
        [in_turns(pair, [10.0, 10.0], [11.0, 11.0, 50.0, 50.0, 50.0]) for pair in blocks(3)],
        {"ratio": 1.1},
    ),
    "device times of turns have rounds of their own": (
        [
            [
                replace(each, steady_device_samples_ms=times, **ROUNDS)
                for each, times in zip(
                    in_turns(pair, [10.0], [10.0]), ([4.0, 8.0], [3.0, 6.0]), strict=True
                )
            ]
            for pair in blocks(3)
        ],
        {"ratio": 1.0, "device_ratio": 0.75},
    ),
    "a pair of which only one took turns is split": (
        [
            *(in_turns(pair, [10.0], [11.0]) for pair in blocks(3)),
            [blocks(4)[3][0], in_turns(blocks(4)[3], [10.0], [11.0])[1]],
        ],
        {"blocks": 3, "split_blocks": 1},
    ),
    **{
        f"not measured: {why}": (
            blocks(1, 5.0, at=at, **columns),
            {
                "wall_verdict": "not_measured",
                "wall_in_words": f"not measured: {why}",
                "blocks_needed": None,
            },
        )
        for why, columns, at in (
            ("throttled", THROTTLED, {}),
            ("shared GPU", {"warnings": ["shared_gpu"]}, {}),
            ("no complete block", {}, {(0, 1): {"slot": "GPU-1"}}),
            ("failed", FAILED, {}),
        )
    },
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdict]:
    """The verdict of each case, asked for together."""
    store = open_store(str(tmp_path_factory.mktemp("cases")))
    trials = [in_cell(each, case) for case, (made, _) in CASES.items() for each in chain(*made)]
    store.write_part("night-1", to_table(trials))
    found = Verdict.of(store)
    assert len(found) == len(CASES), "one each"
    return {verdict.cell_id: verdict for verdict in found}


@pytest.mark.parametrize("case", CASES)
def test_what_counts_and_what_is_said_of_it(told: dict[str, Verdict], case: str) -> None:
    assert "twin" not in told[case].other_settings
    for name, value in CASES[case][1].items():
        expected = pytest.approx(value) if isinstance(value, float) else value
        assert getattr(told[case], name) == expected, name


def test_the_interval_and_ratio_are_those_of_scipy(told: dict[str, Verdict]) -> None:
    found, logs = told["like SciPy's"], np.log(RATIOS)
    ends = stats.t.interval(0.95, 3, logs.mean(), stats.sem(logs))
    assert found.ratio == pytest.approx(np.exp(logs.mean()))
    assert (found.ratio_low, found.ratio_high) == pytest.approx(tuple(np.exp(ends)), rel=1e-6)
    planted = told["planted"]
    assert planted.ratio_low is not None and planted.ratio_high is not None
    assert 1.1 < planted.ratio_low < 1.2 < planted.ratio_high < 1.3


def test_where_the_loop_waits_for_the_cpu_its_line_has_both_clocks(
    told: dict[str, Verdict],
) -> None:
    found = told["both clocks"]
    (line,) = further_lines([found], lambda each: each.cell_id)
    assert line == f"both clocks: {found.headline}."


@pytest.mark.slow
def test_verdicts_do_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    """Also where the two trials of a block disagree on driver or code: they do not pair, and are counted."""
    other = {"driver": "other", "software_hash": "other", "launch_id": "later"}
    edited = {"workload_hash": "edited", "launch_id": "later"}
    made = blocks(9, at={(2, 1): other, (3, 1): other, (4, 0): other, (5, 0): edited})
    rows = list(chain.from_iterable(made))
    mixed = rows[1::2] + rows[-2::-2]
    found = []
    for number, order in enumerate((rows, rows[::-1], mixed)):
        store = open_store(str(tmp_path / str(number)))
        store.write_part(rows[0].sweep_id, to_table(order))
        found.append(sorted(Verdict.of(store), key=str))
    assert found[0] == found[1] == found[2]
    assert sum(each.split_blocks for each in found[0]) == 4


@pytest.mark.long
def test_other_sweeps_take_no_verdict_of_a_sweep_back(tmp_path: Path) -> None:
    """A slowdown that passes beside 4 cells, not beside 60; cells of both sweeps are corrected for together."""
    store = open_store(str(tmp_path))
    scatter = (-0.0076, -0.0038, 0.0, 0.0038, 0.0076)
    slower, alike = (scattered([mean + each for each in scatter]) for mean in (np.log(1.045), 0.0))

    def write(sweep: str, cells: dict[str, Blocks]) -> None:
        rows = [
            in_cell(row, name, sweep_id=sweep, attempt_id=f"{sweep}-{name}-{row.trial_id}")
            for name, pairs in cells.items()
            for row in chain.from_iterable(pairs)
        ]
        store.write_part(sweep, to_table(rows))

    write("own", {"slower": slower, "in both": slower} | {f"alike-{n}": alike for n in range(3)})
    before = {each.cell_id: each for each in Verdict.of(store)}
    assert before["slower"].wall_verdict == before["in both"].wall_verdict == "hurts"
    write("other", {"in both": alike} | {f"other-{n}": alike for n in range(60)})
    after = {each.cell_id: each for each in Verdict.of(store)}
    assert len(after) == 65
    found = after["slower"]
    assert (found.wall_verdict, found.blocks) == ("hurts", 5)
    assert found.ratio_low == pytest.approx(before["slower"].ratio_low)
    assert after["in both"].blocks == 10
    assert after["in both"].wall_verdict == "inconclusive"
