"""What a setting costs: cold costs in `break_even`, memory and reproducibility in `helps_or_hurts`, ranks in
`choice_stability`.
"""

import itertools
from dataclasses import replace
from statistics import fmean

import pytest
import scipy.stats

from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.workloads.records.measured import RankResult
from tests.analysis.conftest import Ask, make_pair

GIB = 2**30


def test_cold_costs_are_over_the_shapes_that_both_met(ask: Ask) -> None:
    open_loop = {"loop_kind": "open", "compute_cache": "warm"}
    trials = _cold(make_pair(0, 10.0, 90.0, **open_loop), [30.0, 10.0, 10.0], [130.0, 50.0])
    (row,) = ask("break_even", trials)
    assert (row["shapes"], row["baseline_cold_ms"], row["candidate_cold_ms"]) == (2, 40.0, 180.0)
    assert row["later_shape_ms"] == 40.0


def test_bytes_that_are_the_same_in_every_block_wait_for_no_look(ask: Ask) -> None:
    trials = [
        replace(record, cold_peak_reserved_bytes=int(peak * GIB))
        for cell, gib in (("equal", (5, 5)), ("unequal", (5, 5.01)))
        for n, candidate in enumerate(gib)
        for record, peak in zip(
            make_pair(n, 10.0, 5.0 + n, looks=[3], cell_id=cell, sweep_id=cell),
            (4, candidate),
            strict=True,
        )
    ]
    equal, unequal = ask("helps_or_hurts", trials, is_over=False)
    assert equal["memory_verdict"] == "hurts" != unequal["memory_verdict"]
    assert equal["memory_ratio"] == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("without", "with_", "outcome"),
    [
        (["a", "a", "a"], ["b", "b", "b"], "already"),
        (["a", "b", "a"], ["c", "c", "c"], "gained"),
        (["a", "b", "a"], ["c", "d", "c"], "not gained"),
        (["a", "a", "a"], ["a", "b", "a"], "lost"),
        (["a", "b", "a"], ["c", None, None], None),
    ],
)
def test_determinism_costs_speed_and_may_gain_reproducibility(
    ask: Ask, without: list[str], with_: list[str | None], outcome: str | None
) -> None:
    trials = []
    for block, bits in enumerate(zip(without, with_, strict=True)):
        trials += _deterministic(make_pair(block, 10.0, 12.0), *bits)
    (row,) = ask("helps_or_hurts", trials, field="deterministic")
    assert (row["contrast"], row["wall_verdict"]) == ("deterministic: false → true", "hurts")
    assert row["ratio"] == pytest.approx(1.2)
    assert row["reproducibility"] == outcome
    assert row["baseline_results"] == len(set(without))
    assert row["blocks_with_bits"] == sum(bits is not None for bits in with_)
    assert row["blocks_with_same_bits"] == sum(map(str.__eq__, without, map(str, with_)))


def test_a_process_that_does_not_repeat_its_own_bits_is_not_reproducible(ask: Ask) -> None:
    trials = []
    for block in range(2):
        default, set_ = _deterministic(make_pair(block, 10.0, 10.0), "a", "a")
        trials += [replace(default, bitwise_repeatable=block == 0), set_]
    (row,) = ask("helps_or_hurts", trials, field="deterministic")
    assert (row["baseline_results"], row["reproducibility"]) == (1, "gained")


def test_an_a_a_pair_is_told_apart_by_its_twin(ask: Ask) -> None:
    trials = []
    for block, bits in enumerate(["a", "b"]):
        default, _ = make_pair(block, 10.0, 10.0)
        twin = replace(default, trial_id=f"twin-{block}", twin=1, fingerprint="a")
        trials += [replace(default, fingerprint=bits), twin]
    (row,) = ask("helps_or_hurts", trials, field="twin", baseline="0", candidate="1")
    assert (row["baseline_results"], row["candidate_results"]) == (2, 1)
    (row,) = ask("computes", [])
    assert row["processes"] == 4


def _cold(
    pair: list[RunRecord], baseline_ms: list[float], candidate_ms: list[float]
) -> list[RunRecord]:
    """The pair with these first calls, a shape each."""
    return [
        replace(
            record,
            cold=[replace(shape, first_ms=ms) for ms in first for shape in (record.cold or [])[:1]],
        )
        for record, first in zip(pair, [baseline_ms, candidate_ms], strict=True)
    ]


def _deterministic(
    pair: list[RunRecord], baseline_bits: str, candidate_bits: str | None
) -> list[RunRecord]:
    """The pair with deterministic off and on, in place of benchmark, and with these fingerprints."""
    default, other = pair
    other = replace(other, benchmark=False, deterministic=True, fingerprint=candidate_bits)
    return [replace(default, fingerprint=baseline_bits), other]


def test_what_ranks_of_trials_did_stands_beside_what_is_predicted(ask: Ask) -> None:
    def results(times: list[float], kernels: str, bits: str) -> list[RankResult]:
        return [
            RankResult(
                rank=rank,
                gpu_uuid=f"GPU-{rank}",
                device_ms=times[rank],
                wait_ms=1.0 + rank,
                kernels_hash=kernels[rank],
                fingerprint=bits[rank],
                cold_peak_reserved_bytes=None,
                steady_peak_reserved_bytes=None,
            )
            for rank in (0, 1)
        ]

    seen = [results([10.0, 10.0], "aa", "xx"), results([9.0, 11.0], "ab", "xx")]
    trials = [
        replace(record, ranks="2_ranks", rank_results=of_trial)
        for block, of_trial in enumerate(seen)
        for record in make_pair(block, 10.0, 10.0)
    ]
    for row in ask("choice_stability", trials, ranks=2):
        assert (row["seen_rank_agreement"], row["seen_bits_agreement"]) == (0.5, 1.0)
        assert row["seen_straggler_cost"] == pytest.approx(0.05)
        assert row["seen_wait_ms"] == 1.5


@pytest.mark.parametrize("ranks", [2, 3])
def test_what_ranks_would_do_is_what_drawing_processes_gives(ask: Ask, ranks: int) -> None:
    """By drawing every possible set of ranks from the processes that there are; who agrees with the first, from the
    others."""
    times, kernels, bits = [10.0, 11.0, 10.5, 14.0], "aaba", "xyyy"
    trials = [
        replace(record, kernels_hash=kernel, fingerprint=bit, regime_shapes=shapes)
        for shapes in (1, 3)
        for block, (ms, kernel, bit) in enumerate(zip(times, kernels, bits, strict=True))
        for record in make_pair(block, ms, ms, sweep_id=f"s{shapes}", cell_id=f"c{shapes}")
    ]
    rows = ask("choice_stability", trials, ranks=ranks)
    one, three = (
        {row["benchmark"]: row for row in rows if row["cell_id"] == cell} for cell in ("c1", "c3")
    )
    draws = list(itertools.product(range(4), repeat=ranks))
    others = [draw for draw in draws if draw[0] not in draw[1:]]
    alike = [len({kernels[each] for each in draw}) == 1 for draw in others]
    same_bits = [len({bits[each] for each in draw}) == 1 for draw in others]
    slowest = fmean(max(times[each] for each in draw) for draw in draws)
    row = one[True]
    assert row["seen_rank_agreement"] is row["seen_straggler_cost"] is None
    assert row["rank_agreement"] == pytest.approx(fmean(alike))
    assert row["rank_bits_agreement"] == pytest.approx(fmean(same_bits))
    assert row["straggler_cost"] == pytest.approx(slowest / fmean(times) - 1)
    of_modal = scipy.stats.binomtest(3, 4).proportion_ci(method="exact")
    assert row["rank_agreement_low"] == pytest.approx(of_modal.low**ranks, rel=2e-3)
    assert row["rank_agreement_high"] == pytest.approx(of_modal.high ** (ranks - 1), rel=2e-3)
    assert (row["search_stalls"], one[False]["search_stalls"]) == (1, None)
    # the first step, and those after it in which a rank meets a size for the first time
    waits = [(1 - (2 / 3) ** (1 + step)) ** ranks for step in range(200)]
    assert three[True]["search_stalls"] == pytest.approx(1 + sum(1 - each for each in waits))
