"""A reported claim meets today's trials of the same cell: each outcome, and each cause, over made-up records."""

from dataclasses import replace
from typing import Any

import pytest

from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.workloads.cells.field_case import CaseSide, find_field_case
from tests.analysis.conftest import Ask, make_record

PROCESSES = 5


def of_side(side: CaseSide, *, ms: float, **columns: Any) -> list[RunRecord]:
    """The trials of a side of a case, whose times scatter by a percent around `ms`."""
    name = side.problem.name.replace("/", "-") if side.problem else side.workload
    cell = f"{name}-{side.precision}-{side.layout}"
    asked = {
        **{name: getattr(side, name) for name in ("direction", "regime", "precision", "layout")},
        **{name: getattr(side.config, name) for name in ("benchmark", "deterministic", "enabled")},
        "workload": side.workload,
        "problem": side.problem.name if side.problem else None,
        "input_shape": list(side.input_shape),
        "cell_id": cell,
        "steady_device_ms": ms,
        **columns,
    }
    made = []
    for block in range(PROCESSES):
        trial, scatter = f"{cell}-{side.config.benchmark}-{block}", 1 + block / 500
        record = make_record(
            **asked, block=block, trial_id=trial, attempt_id=trial, steady_wall_ms=ms * scatter
        )
        assert record.steady_device_ms is not None
        made.append(replace(record, steady_device_ms=record.steady_device_ms * scatter))
    return made


@pytest.fixture
def become(ask: Ask) -> Any:
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
        (row,) = [row for row in ask("field_cases", records) if row["case_id"] == case]
        return row

    return found


# N004: bf16 above 1.03 of the other precision. N015: benchmark below 0.97. N065a: within 1.06.
@pytest.mark.slow
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
    ask: Ask, cases: dict[str, tuple[tuple[float, ...], str]]
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


FAILED = {"status": "out_of_memory", "message": "CUDA out of memory"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "ms", "changes", "outcome", "because"),
    [
        ("N004", (1.0,), ({},), "not measured yet", None),
        ("N004", (1.0, 1.0), ({}, FAILED), "not to be run here", "it fails: CUDA out of memory"),
        ("N004", (1.0, 4.0), ({}, {"warnings": ["throttled"]}), "not measured yet", None),
        ("N004", (1.0, 4.0), ({}, {"deterministic": True}), "not measured yet", None),
        ("N013", (1.0,), ({"status": "crash", "message": "signal 6"},), "still there", None),
        ("N013", (1.0,), ({"status": "ok", "message": None},), "gone", None),
    ],
    ids=["one side", "fails", "doubtful", "another setting", "fails as said", "no longer fails"],
)
def test_case_without_times_of_both_sides_is_told(
    become: Any,
    case: str,
    ms: tuple[float, ...],
    changes: tuple[dict[str, Any], ...],
    outcome: str,
    because: str | None,
) -> None:
    row = become(case, *ms, changes=changes)
    assert row["outcome"] == outcome
    if because:
        assert (row["because"], row["candidate_trials"]) == (because, PROCESSES)


@pytest.mark.parametrize(
    ("case", "ms", "changes", "cause"),
    [
        ("N007", (1.0,), ({"routes": ["SlowDilated3d"]},), "route"),
        ("N082", (1.0, 2.0), ({"steady_device_ms": 0.1}, {"steady_device_ms": 0.1}), "launch"),
        ("N004", (1.0, 4.0), ({"kernels_hash": "a"}, {"kernels_hash": "a"}), "not in the record"),
    ],
)
def test_cause_that_no_case_of_the_reference_has_is_found_from_the_record(
    become: Any,
    case: str,
    ms: tuple[float, ...],
    changes: tuple[dict[str, Any], ...],
    cause: str,
) -> None:
    same = {"routes": ["Cudnn"], "layout_conversion_ms": 0.0}
    assert become(case, *ms, changes=tuple(same | each for each in changes))["cause"] == cause
