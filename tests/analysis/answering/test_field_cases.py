"""A reported claim meets today's trials of the same cell: each outcome, and each cause, over made-up records."""

from dataclasses import replace
from typing import Any

import pytest

from cudnn_sweep.analysis.storing.schema import RunRecord
from cudnn_sweep.workloads.cells.field_case import Side, find_field_case
from tests.analysis.conftest import Ask, make_record

PROCESSES = 5


@pytest.fixture
def of_side() -> Any:
    """The trials of a side of a case, whose times scatter by a percent around `ms`."""

    def made(side: Side, *, ms: float, **columns: Any) -> list[RunRecord]:
        settings = {name: getattr(side.config, name) for name in ("benchmark", "deterministic")}
        name = side.problem.name.replace("/", "-") if side.problem else side.workload
        cell = f"{name}-{side.precision}-{side.layout}"
        asked = {
            "workload": side.workload,
            "problem": side.problem.name if side.problem else None,
            "direction": side.direction,
            "input_shape": list(side.input_shape),
            "regime": side.regime,
            "precision": side.precision,
            "layout": side.layout,
            "enabled": side.config.enabled,
            "cell_id": cell,
        }
        return [
            replace(
                make_record(
                    **(asked | settings | columns),
                    block=block,
                    trial_id=f"{cell}-{side.config.benchmark}-{block}",
                    attempt_id=f"{cell}-{side.config.benchmark}-{block}",
                    steady_wall_ms=ms * (1 + block / 500),
                ),
                steady_device_ms=columns.get("steady_device_ms", ms) * (1 + block / 500),
            )
            for block in range(PROCESSES)
        ]

    return made


@pytest.fixture
def become(ask: Ask, of_side: Any) -> Any:
    """The answer about a case whose sides take these times."""

    def found(
        case: str, *ms: float, changes: tuple[dict[str, Any], ...] = ({}, {})
    ) -> dict[str, Any]:
        sides = find_field_case(case).sides()
        records = [
            record
            for side, time, columns in zip(sides, ms, changes, strict=False)
            for record in of_side(side, ms=time, **columns)
        ]
        rows = ask("field_cases", records)
        (row,) = [row for row in rows if row["case_id"] == case]
        return row

    return found


# N004: bf16 above 1.03 of the other precision. N015: benchmark below 0.97. N065a: within 1.06.
@pytest.mark.parametrize(
    "cases",
    [
        {
            "N004": ((1.0, 4.0), "still there"),
            "N015": ((1.0, 0.5), "still there"),
            "N065a": ((1.0, 1.01), "still there"),
            "N056": ((1.0, 2.5), "still there"),
            "N042": ((0.6,), "still there"),
        },
        {
            "N004": ((1.0, 1.0), "gone"),
            "N015": ((1.0, 1.0), "gone"),
            "N065a": ((1.0, 1.2), "gone"),
            "N056": ((1.0, 1.8), "gone"),
            "N042": ((0.3,), "gone"),
        },
        {"N004": ((1.0, 0.5), "reversed"), "N015": ((1.0, 2.0), "reversed")},
        {"N004": ((1.0, 1.03), "undecided"), "N042": ((0.468,), "undecided")},
    ],
    ids=["still there", "gone", "reversed", "undecided"],
)
def test_claims_meet_what_was_measured(
    ask: Ask, of_side: Any, cases: dict[str, tuple[tuple[float, ...], str]]
) -> None:
    records = [
        record
        for case, (times, _) in cases.items()
        for side, ms in zip(find_field_case(case).sides(), times, strict=True)
        for record in of_side(side, ms=ms)
    ]
    rows = {row["case_id"]: row for row in ask("field_cases", records)}
    for case, (ms, outcome) in cases.items():
        row = rows[case]
        assert (row["outcome"], row["because"]) == (outcome, None), case
        assert row["baseline_trials"] == PROCESSES
        today = ms[1] / ms[0] if len(ms) == 2 else ms[0]
        assert row["value"] == pytest.approx(today, rel=0.02)
        assert row["value_low"] <= row["value"] <= row["value_high"]


def test_ratio_of_two_settings_is_paired_by_block(become: Any) -> None:
    row = become("N015", 1.0, 0.5)
    assert row["value_high"] - row["value_low"] < 1e-6  # blocks scatter, their ratios do not
    assert row["contrast"] == "benchmark=false → benchmark=true"


def test_case_about_another_version_is_not_to_be_run_here(ask: Ask) -> None:
    rows = {row["case_id"]: row for row in ask("field_cases", [make_record()])}
    row = rows["N001"]
    assert (row["outcome"], row["because"]) == (
        "not to be run here",
        "it compares torch 2.9.0 with 2.8.0",
    )
    assert rows["N004"]["outcome"] == "not measured yet"
    assert rows["N004"]["value"] is None


def test_case_of_which_one_side_was_measured_is_not_measured_yet(become: Any) -> None:
    assert become("N004", 1.0)["outcome"] == "not measured yet"


def test_case_whose_trials_all_fail_is_not_to_be_run_here(become: Any) -> None:
    failed = {"status": "out_of_memory", "message": "CUDA out of memory"}
    row = become("N004", 1.0, 1.0, changes=({}, failed))
    assert (row["outcome"], row["because"]) == (
        "not to be run here",
        "it fails: CUDA out of memory",
    )
    assert row["candidate_failures"] == PROCESSES


def test_case_whose_trials_are_all_doubtful_is_not_measured_yet(become: Any) -> None:
    row = become("N004", 1.0, 4.0, changes=({}, {"warnings": ["throttled"]}))
    assert row["outcome"] == "not measured yet"


@pytest.mark.parametrize(("status", "outcome"), [("crash", "still there"), ("ok", "gone")])
def test_claim_that_a_cell_fails_is_judged_by_its_failures(
    become: Any, status: str, outcome: str
) -> None:
    message = None if status == "ok" else "signal 6"
    row = become("N013", 1.0, changes=({"status": status, "message": message},))
    assert row["outcome"] == outcome


def test_other_settings_of_a_cell_are_not_its_case(become: Any) -> None:
    row = become("N004", 1.0, 4.0, changes=({}, {"deterministic": True}))
    assert row["outcome"] == "not measured yet"


HASHES = ({"kernels_hash": "one"}, {"kernels_hash": "other"})


@pytest.mark.parametrize(
    ("case", "ms", "changes", "cause"),
    [
        ("N004", (1.0, 4.0), HASHES, "kernel"),
        ("N015", (1.0, 0.5), HASHES, "heuristic"),
        ("N004", (1.0, 4.0), ({"routes": ["Cudnn"]}, {"routes": ["SlowDilated3d"]}), "route"),
        (
            "N014",
            (1.0, 4.0),
            ({"layout_conversion_ms": 0.0}, {"layout_conversion_ms": 2.0}),
            "layout conversion",
        ),
        ("N082", (1.0, 2.0), ({"steady_device_ms": 0.1}, {"steady_device_ms": 0.1}), "launch"),
        ("N004", (1.0, 4.0), ({"kernels_hash": "a"}, {"kernels_hash": "a"}), "not in the record"),
        ("N004", (1.0, 1.0), HASHES, None),
    ],
)
def test_cause_is_found_from_the_record(
    become: Any,
    case: str,
    ms: tuple[float, ...],
    changes: tuple[dict[str, Any], ...],
    cause: str | None,
) -> None:
    same = {"routes": ["Cudnn"], "layout_conversion_ms": 0.0}
    assert become(case, *ms, changes=tuple(same | each for each in changes))["cause"] == cause


def test_memory_and_routes_are_causes_of_claims_about_them(become: Any, ask: Ask) -> None:
    peaks = (
        {"steady_peak_reserved_bytes": 10**9, "cold_peak_reserved_bytes": 10**9},
        {"steady_peak_reserved_bytes": 10**9, "cold_peak_reserved_bytes": 3 * 10**9},
    )
    memory = become("N086", 1.0, 1.0, changes=peaks)
    assert (memory["outcome"], memory["cause"]) == ("still there", "memory")
    assert (memory["baseline_value"], memory["candidate_value"]) == (10**9, 3 * 10**9)
    route = become("N007", 1.0, changes=({"routes": ["SlowDilated3d"]},))
    assert (route["outcome"], route["cause"]) == ("still there", "route")
