"""What a setting costs: the question `cold_cost`, and memory and reproducibility in `helps_or_hurts`."""

from dataclasses import replace

import pytest

from cudnn_sweep.analysis.storing.schema import RunRecord
from tests.analysis.conftest import Ask, make_pair

GIB = 2**30


def test_cold_costs_are_over_the_shapes_that_both_met(ask: Ask) -> None:
    open_loop = {"loop_kind": "open", "compute_cache": "warm"}
    trials = _cold(make_pair(0, 10.0, 90.0, **open_loop), [30.0, 10.0, 10.0], [130.0, 50.0])
    (row,) = ask("cold_cost", trials)
    assert (row["shapes"], row["baseline_cold_ms"], row["candidate_cold_ms"]) == (2, 40.0, 180.0)
    assert (row["extra_first_shape_ms"], row["extra_later_shape_ms"]) == (100.0, 40.0)


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
