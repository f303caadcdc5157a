"""What people say meets planted figures: each claim holds where they say so, and does not where they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from cudnn_sweep.analysis.answering.min_effect import MIN_EFFECT
from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.asking.queries import load_query, part_names
from cudnn_sweep.analysis.storing.schema import RunRecord
from cudnn_sweep.analysis.storing.store import Store

if TYPE_CHECKING:
    from tests.makers import Ask, MakeRecord

BLOCKS = 5
CLAIMS = [name for name in part_names() if name.startswith("claims/")]
NAMES = {int(name.removeprefix("claims/")[:2]): name for name in CLAIMS}
VERDICTS = {"holds", "holds only when", "does not hold", "undecided", "not measured"}
Columns = dict[str, Any]
Contrast = Callable[..., list[RunRecord]]


def answer(store: Store, name: str) -> tuple[list[Columns], list[tuple[str, str]]]:
    """The rows, and the names and types of their columns."""
    question = load_query(name)
    with open_database(store) as database:
        table = database.query(question.sql, question.values({}))
    return table.to_pylist(), [(field.name, str(field.type)) for field in table.schema]


def test_there_are_twelve_claims_each_with_a_question_and_the_usual_parameters() -> None:
    assert sorted(NAMES) == list(range(1, 13))
    for name in CLAIMS:
        question = load_query(name)
        assert question.question.endswith("?") and question.notes and question.terminal, name
        defaults = {each.name: each.default for each in question.parameters}
        assert defaults == {"min_effect": MIN_EFFECT, "sweep_id": None}, name


@pytest.mark.parametrize("number", sorted(NAMES))
def test_claim_of_an_empty_store_is_not_measured_and_says_what_measures_it(
    store: Store, number: int
) -> None:
    (row,), _ = answer(store, NAMES[number])
    assert (row["claim"], row["verdict"]) == (number, "not measured")
    assert row["said"].endswith(".") and row["measured_by"].startswith("sweep launch ")
    assert row["value"] is None and row["gpu"] is None


def test_claims_over_a_small_store_have_the_same_columns(kept_store: Store) -> None:
    found = {name: answer(kept_store, name) for name in CLAIMS}
    assert len({tuple(columns) for _, columns in found.values()}) == 1
    assert {row["verdict"] for rows, _ in found.values() for row in rows} <= VERDICTS
    for name, (rows, _) in found.items():
        places = [(row["gpu"], row["torch"], row["cudnn"]) for row in rows]
        assert len({(*place, row["verdict"]) for place, row in zip(places, rows, strict=True)}) == (
            len(set(places))
        ), f"{name}: one verdict a GPU and software"
        assert all(row["gpu"] is None or row["measure"] for row in rows), name


@pytest.fixture
def contrast(make_record: MakeRecord) -> Contrast:
    """Blocks of a cell under two values of a setting, whose times scatter by a thousandth."""

    def made(
        cell: str, field: str, before: Columns, after: Columns, **columns: Any
    ) -> list[RunRecord]:
        return [
            record
            for block in range(BLOCKS)
            for record in pair(cell, field, block, before, after, columns)
        ]

    def pair(
        cell: str, field: str, block: int, before: Columns, after: Columns, columns: Columns
    ) -> Iterator[RunRecord]:
        for side, changes in (("before", before), ("after", after)):
            told = columns | changes
            ms = told.pop("ms", 10.0) * (1 + block / 1000)
            cold_ms = told.pop("cold_ms", 30.0) * (1 + block / 1000)
            value = told.pop("value", (side == "after") != (field == "enabled"))
            prints = told.pop("fingerprints", ("same",))
            key = f"{cell}-{field}-{side}-{block}"
            record = make_record(
                **{
                    "trial_id": key,
                    "attempt_id": key,
                    "cell_id": cell,
                    "block": block,
                    "replicate": block,
                    "steady_wall_ms": ms,
                    "steady_device_ms": told.pop("device_ms", 0.9 * ms),
                    "kernels_hash": f"kernels-{side}",
                    "logged_searches": None,
                    "logged_choices": None,
                    "fingerprint": prints[block % len(prints)],
                    field: value,
                    **told,
                }
            )
            assert record.cold
            yield replace(record, cold=[replace(record.cold[0], first_ms=cold_ms)])

    return made


@pytest.fixture
def claim(ask: Ask) -> Callable[[int, list[RunRecord]], list[Columns]]:
    def asked(number: int, records: list[RunRecord]) -> list[Columns]:
        return ask(NAMES[number], records)

    return asked


Claim = Callable[[int, list[RunRecord]], list[Columns]]
RGB256 = {
    "problem": "tutorials/rgb256",
    "input_shape": [64, 3, 256, 256],
    "direction": "forward",
    "precision": "tf32",
}
RESNET = {"workload": "torchvision.models:resnet50", "problem": None, "direction": "training"}
ACROSS = "across processes, forward_backward"
FRESH = {"regime": "fresh", "loop_kind": "open", "steady_iterations": 8}


@pytest.mark.parametrize(
    ("number", "field", "columns", "before", "after", "verdict"),
    [
        (1, "benchmark", RGB256, {"ms": 10}, {"ms": 7}, "holds"),
        (1, "benchmark", RGB256, {"ms": 10}, {"ms": 10}, "does not hold"),
        (1, "benchmark", RGB256, {"ms": 10}, {"ms": 13}, "does not hold"),
        (1, "benchmark", RGB256 | {"deterministic": True}, {"ms": 10}, {"ms": 7}, "not measured"),
        (1, "benchmark", RGB256 | {"device": "cpu"}, {"ms": 10}, {"ms": 7}, "not measured"),
        (3, "benchmark", RESNET, {"ms": 10}, {"ms": 7}, "holds"),
        (3, "benchmark", RESNET, {"ms": 10}, {"ms": 10}, "does not hold"),
        (3, "benchmark", RESNET | {"direction": "inference"}, {}, {"ms": 7}, "not measured"),
        (4, "benchmark", FRESH, {"ms": 10}, {"ms": 90}, "holds"),
        (4, "benchmark", FRESH, {"ms": 10}, {"ms": 10}, "does not hold"),
        (5, "benchmark", {}, {"cold_ms": 30}, {"cold_ms": 500}, "holds"),
        (5, "benchmark", {}, {"cold_ms": 30}, {"cold_ms": 20}, "does not hold"),
        (7, "deterministic", {}, {"fingerprints": "ab"}, {"ms": 14}, "holds"),
        (7, "deterministic", {}, {}, {"fingerprints": "ab"}, "does not hold"),
        (7, "deterministic", {}, {"fingerprints": "ab"}, {"ms": 10}, "holds only when"),
        (8, "enabled", {}, {"ms": 10}, {"ms": 20}, "holds"),
        (8, "enabled", {}, {"ms": 10}, {"ms": 5}, "does not hold"),
        (8, "enabled", {"workload": "relu"}, {"ms": 10}, {"ms": 20}, "not measured"),
        (9, "benchmark", {"deterministic": True}, {"ms": 10}, {"ms": 7}, "holds"),
        (9, "benchmark", {"deterministic": True}, {"ms": 10}, {"ms": 10}, "does not hold"),
        (9, "deterministic", {"benchmark": True}, {"ms": 10}, {"ms": 10}, "holds"),
        (9, "deterministic", {"benchmark": True}, {"ms": 10}, {"ms": 20}, "does not hold"),
        (10, "enabled", {"workload": "batch_norm"}, {"ms": 10}, {"ms": 20}, "holds"),
        (10, "enabled", {"workload": "batch_norm"}, {"ms": 10}, {"ms": 10}, "does not hold"),
        (10, "enabled", {}, {"ms": 10}, {"ms": 20}, "not measured"),
    ],
)
def test_claim_meets_one_cell(
    contrast: Contrast,
    claim: Claim,
    number: int,
    field: str,
    columns: Columns,
    before: Columns,
    after: Columns,
    verdict: str,
) -> None:
    rows = claim(number, contrast("cell", field, before, after, **columns))
    assert {row["verdict"] for row in rows} == {verdict}
    if verdict != "not measured":
        assert {row["gpu"] for row in rows} == {"NVIDIA H200"}
        deciding = [row for row in rows if row["outcome"]]
        assert all(row["trials"] == 2 * BLOCKS for row in deciding)


def test_setting_that_makes_a_step_fail_does_not_cost_nothing(
    contrast: Contrast, claim: Claim
) -> None:
    crashes = contrast("cell", "deterministic", {}, {"status": "crash"}, benchmark=True)
    assert {row["verdict"] for row in claim(9, crashes)} == {"does not hold"}


def test_ratio_of_a_figure_and_the_times_of_its_processes_are_the_planted_ones(
    contrast: Contrast, claim: Claim
) -> None:
    rows = claim(1, contrast("cell", "benchmark", {"ms": 10}, {"ms": 7}, **RGB256))
    wall, device = sorted(rows, key=lambda row: row["measure"], reverse=True)
    assert wall["value"] == pytest.approx(0.7) == device["value"]
    assert wall["value_low"] <= wall["value"] <= wall["value_high"]
    assert wall["baseline_samples"] == pytest.approx([10 * (1 + n / 1000) for n in range(BLOCKS)])
    assert wall["candidate_samples"] == pytest.approx([7 * (1 + n / 1000) for n in range(BLOCKS)])
    assert device["outcome"] is None, "wall time decides"


def test_claim_that_holds_in_some_cells_counts_them_by_condition(
    contrast: Contrast, claim: Claim
) -> None:
    helped = contrast("a", "benchmark", {"ms": 10}, {"ms": 7}, **RGB256)
    equal = contrast("b", "benchmark", {}, {}, **RGB256 | {"direction": "forward_backward"})
    rows = claim(1, helped + equal)
    assert {(row["verdict"], row["holds_in"]) for row in rows} == {
        ("holds only when", "forward, tf32: 1 of 1; forward_backward, tf32: 0 of 1")
    }


def test_claim_most_of_whose_figures_are_undecided_is_undecided(
    contrast: Contrast, claim: Claim
) -> None:
    decided = contrast("a", "benchmark", {"ms": 10}, {"ms": 7}, **RGB256)
    wide = [
        replace(record, steady_wall_ms=10.0 * (1.5 if record.block % 2 == record.benchmark else 1))
        for cell in ("b", "c")
        for record in contrast(cell, "benchmark", {}, {}, **RGB256, layout=f"layout-{cell}")
    ]
    rows = claim(1, decided + wide)
    assert {row["verdict"] for row in rows} == {"undecided"}
    assert {row["holds_in"] for row in rows} == {"forward, tf32: 1 of 1, 2 undecided"}
    assert {row["holds_here"] for row in rows} == {"1 of 1, 2 undecided"}


def test_sizes_that_stay_and_sizes_that_are_new_are_two_conditions(
    contrast: Contrast, claim: Claim
) -> None:
    stays = contrast("a", "benchmark", {"ms": 10, "cold_ms": 30}, {"ms": 10, "cold_ms": 500})
    pays = contrast(
        "b", "benchmark", {"ms": 10, "cold_ms": 30}, {"ms": 5, "cold_ms": 530}, layout="other"
    )
    new = contrast("c", "benchmark", {"ms": 10}, {"ms": 90}, **FRESH)
    rows = claim(4, stays + pays + new)
    assert rows[0]["verdict"] == "holds only when"
    assert rows[0]["holds_in"] == "always new: 1 of 1; sizes stay: 1 of 2"
    assert rows[0]["in_words"] == "holds only when: always new; in part: sizes stay (1 of 2)"
    crossing = [row for row in rows if row["condition"].startswith("crossing")]
    assert [row["value"] for row in crossing] == [pytest.approx(100, rel=0.01)]
    assert crossing[0]["outcome"] is None


def test_shapes_of_a_cell_are_in_the_same_order_in_each_answer(
    contrast: Contrast, claim: Claim
) -> None:
    shapes = [[4, size] for size in (9, 3, 8, 1)]
    records = [
        replace(record, cold=[replace(record.cold[0], shape=shape) for shape in shapes])
        for record in contrast("a", "benchmark", {"ms": 10}, {"ms": 5, "cold_ms": 500})
        if record.cold
    ]
    rows = claim(4, records)
    crossing = [row["input_shape"] for row in rows if row["condition"].startswith("crossing")]
    assert crossing == ["4x1", "4x3", "4x8", "4x9"]


@pytest.mark.parametrize(
    ("off", "on", "verdicts"),
    [
        ("a", "ab", {ACROSS: "holds", "within a process": "does not hold"}),
        ("a", "a", {ACROSS: "does not hold", "within a process": "does not hold"}),
        ("ab", "ab", {ACROSS: "does not hold", "within a process": "does not hold"}),
    ],
)
def test_results_are_compared_across_processes_and_within_one(
    contrast: Contrast, claim: Claim, off: str, on: str, verdicts: dict[str, str]
) -> None:
    rows = claim(6, contrast("cell", "benchmark", {"fingerprints": off}, {"fingerprints": on}))
    assert {row["condition"]: row["outcome"] for row in rows} == verdicts
    across = next(row for row in rows if row["condition"] == ACROSS)
    assert (across["baseline_value"], across["value"]) == (len(off), len(on))
    assert len(set(across["baseline_samples"])) == len(off)
    assert len(set(across["candidate_samples"])) == len(on)
    together = {*across["baseline_samples"], *across["candidate_samples"]}
    assert together == set(map(float, range(1, len({*off, *on}) + 1)))


def test_process_that_does_not_repeat_its_bits_is_seen(contrast: Contrast, claim: Claim) -> None:
    after = {"bitwise_repeatable": False}
    before = {"bitwise_repeatable": True}
    rows = claim(6, contrast("cell", "benchmark", before, after))
    within = next(row for row in rows if row["condition"] == "within a process")
    assert within["outcome"] == "holds"


@pytest.mark.parametrize(
    ("late_ms", "early_ms", "outcome", "verdict"),
    [
        (10.0, 5.0, "holds", "holds"),
        (5.0, 5.0, "does not hold", "does not hold"),
        (10.0, 10.0, None, "undecided"),
    ],
)
def test_flag_set_later_is_compared_with_the_flag_set_before(
    contrast: Contrast,
    claim: Claim,
    late_ms: float,
    early_ms: float,
    outcome: str | None,
    verdict: str,
) -> None:
    before = contrast("plain", "benchmark", {"ms": 10}, {"ms": early_ms})
    later = contrast("late", "benchmark", {"ms": 10}, {"ms": late_ms}, state="benchmark_later")
    rows = claim(11, before + later)
    assert {row["verdict"] for row in rows} == {verdict}
    wall = {row["condition"]: row for row in rows if row["measure"].startswith("wall")}
    assert wall["after the first step"]["outcome"] == outcome
    assert wall["set before the first step"]["value"] == pytest.approx(early_ms / 10)


@pytest.fixture
def scripts(make_record: MakeRecord) -> Callable[[float, float], list[RunRecord]]:
    """Processes that ran the tutorial's script, and what its clock said with benchmark on and off."""

    def made(on_ms: float, off_ms: float) -> list[RunRecord]:
        return [
            make_record(
                **RGB256
                | {
                    "workload": "tutorial_true_first",
                    "problem": None,
                    "cell_id": "script",
                    "trial_id": f"script-{process}",
                    "attempt_id": f"script-{process}",
                    "own_times_ms": {
                        "benchmark_true": on_ms * (1 + process / 1000),
                        "benchmark_false": off_ms * (1 + process / 500),
                    },
                }
            )
            for process in range(BLOCKS)
        ]

    return made


@pytest.mark.parametrize(
    ("on_ms", "off_ms", "fresh_ms", "verdict"),
    [
        (700.0, 10.0, 10.0, "does not hold"),
        (5.0, 10.0, 10.0, "does not hold"),
        (5.0, 10.0, 5.0, "holds"),
        (10.0, 10.0, 10.0, "holds"),
        (5.0, 10.0, None, "undecided"),
    ],
)
def test_clock_of_the_script_is_held_against_fresh_processes(
    contrast: Contrast,
    claim: Claim,
    scripts: Callable[[float, float], list[RunRecord]],
    on_ms: float,
    off_ms: float,
    fresh_ms: float | None,
    verdict: str,
) -> None:
    fresh = [] if fresh_ms is None else contrast("f", "benchmark", {}, {"ms": fresh_ms}, **RGB256)
    rows = claim(2, scripts(on_ms, off_ms) + fresh)
    assert {row["verdict"] for row in rows} == {verdict}
    clock = next(row for row in rows if row["measure"].startswith("clock"))
    assert clock["value"] == pytest.approx(on_ms / off_ms, rel=0.01)
    assert clock["value_low"] <= clock["value"] <= clock["value_high"]
    assert clock["candidate_samples"][0] == on_ms and clock["trials"] == BLOCKS


def test_what_is_seldom_told_has_a_condition_each(contrast: Contrast, claim: Claim) -> None:
    peaks = (
        {"steady_peak_reserved_bytes": 10**9, "cold_peak_reserved_bytes": size}
        for size in (10**9, 3 * 10**9)
    )
    records = contrast("memory", "benchmark", *peaks, launch_bound=False, problem="big")
    records += contrast(
        "launches",
        "benchmark",
        {"device_ms": 8.0},
        {"device_ms": 4.0},
        launch_bound=True,
        problem="small",
    )
    records += contrast("tf32", "benchmark", {}, {"ms": 5}, problem="p", precision="tf32")
    records += contrast("bf16", "benchmark", {}, {}, problem="p", precision="bf16")
    records += contrast(
        "cl", "benchmark", {}, {}, problem="p", precision="bf16", layout="channels_last"
    )
    records += contrast(
        "limit",
        "benchmark_limit",
        {"value": 10},
        {"value": 0, "ms": 5},
        benchmark=True,
        problem="all",
    )
    rows = claim(12, records)
    outcomes = {
        (row["condition"], row["problem"], row["cell_id"]): row["outcome"]
        for row in rows
        if row["outcome"]
    }
    assert outcomes["memory", "big", "memory"] == "holds"
    assert outcomes["memory", "p", "tf32"] == "does not hold"
    assert outcomes["launches", "small", "launches"] == "holds"
    assert outcomes["precision", "p", None] == "holds"
    assert outcomes["layout", "p", None] == "does not hold"
    assert outcomes["choices", "p", "tf32"] == "does not hold"
    assert outcomes["limit", "all", "limit"] == "holds"
