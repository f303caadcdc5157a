"""Cells of a report under short names, which of them are shown, and their tables: of rows that are made up."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from cudnn_sweep.analysis.engine.axes import NAMED
from cudnn_sweep.analysis.report import content
from cudnn_sweep.analysis.report.cells import ReportCell, named, shared, verdict_labels
from cudnn_sweep.analysis.report.content import _shown, effect, rounded
from cudnn_sweep.analysis.report.sheets import MOST_FAILURES, Sheet, _answers, _verdict, sheets
from cudnn_sweep.analysis.results.verdicts import BreakEven, Verdict


def cells(*changes: dict[str, Any]) -> list[ReportCell]:
    usual = dict.fromkeys(NAMED) | {
        "workload": "conv",
        "problem": "vgg/conv1",
        "direction": "forward",
        "input_shape": "8x3x64x64",
        "regime": "fixed",
        "state": "plain",
        "precision": "tf32",
        "layout": "contiguous",
        "gpu": "NVIDIA H200",
        "env_hash": "e",
        "software_hash": "s",
        "workload_hash": None,
        "torch": "torch 2.11",
        "cudnn": 91900,
        "driver": "driver 570",
        "code": None,
        "trials": 6,
    }
    rows = [usual | {"cell_id": f"{number}" * 8} | each for number, each in enumerate(changes)]
    return named(pa.Table.from_pylist(rows))


def labels(*changes: dict[str, Any]) -> list[str]:
    return [cell.label for cell in cells(*changes)]


LARGER = {"input_shape": "16x3x64x64"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([{}], ["vgg/conv1"]),
        ([{}, {"problem": "vgg/conv2"}], ["vgg/conv1", "vgg/conv2"]),
        ([{}, LARGER], ["vgg/conv1 8x3x64x64", "vgg/conv1 16x3x64x64"]),
        ([{}, {"problem": "b", **LARGER}], ["vgg/conv1", "b"]),
        ([{}, {"regime": "cycle"}], ["vgg/conv1 fixed", "vgg/conv1 cycle"]),
        ([{}, {"precision": "bf16"}], ["vgg/conv1 tf32", "vgg/conv1 bf16"]),
        ([{}, {"gpu": "NVIDIA H100"}], ["vgg/conv1 NVIDIA H200", "vgg/conv1 NVIDIA H100"]),
        (
            [{}, {"torch": "torch 2.12", "cudnn": 92000}],
            ["vgg/conv1 torch 2.11", "vgg/conv1 torch 2.12"],
        ),
        (
            [{}, {"torch": "torch 2.12"}, {"torch": "torch 2.12", "cudnn": 92000}],
            [
                "vgg/conv1 torch 2.11 cuDNN 9.19.0",
                "vgg/conv1 torch 2.12 cuDNN 9.19.0",
                "vgg/conv1 torch 2.12 cuDNN 9.20.0",
            ],
        ),
        ([{"code": "code a"}, {"problem": "b", "code": "code b"}], ["vgg/conv1", "b"]),
        (
            [{"code": "code a", "cell_id": "x"}, {"code": "code b", "cell_id": "x"}],
            ["vgg/conv1 code a", "vgg/conv1 code b"],
        ),
        ([{}, {}], ["vgg/conv1 000000", "vgg/conv1 111111"]),
    ],
)
def test_a_label_says_in_what_cells_differ(
    changes: list[dict[str, Any]], expected: list[str]
) -> None:
    assert labels(*changes) == expected


def test_a_chart_gets_names_without_what_its_axes_show() -> None:
    small, large, other, bf16 = cells(
        {},
        LARGER,
        {"problem": "b", "regime": "cycle"},
        {"precision": "bf16", "layout": "channels_last", "gpu": "NVIDIA H100"},
    )
    assert small.label == "vgg/conv1 8x3x64x64 fixed tf32 contiguous NVIDIA H200".replace(
        " contiguous", ""
    )
    assert (small.line, small.place) == ("vgg/conv1 8x3x64x64 fixed tf32", "NVIDIA H200")
    assert small.row_label == "vgg/conv1 8x3x64x64 tf32 NVIDIA H200"
    assert small.grid_label == "vgg/conv1 8x3x64x64 fixed"
    assert small.family == large.family == "vgg/conv1 fixed tf32 NVIDIA H200"
    assert (other.family, other.size_label) == (None, None)
    assert small.size_label == f"{small.family} 3x64x64"
    assert (small.batch, small.size, small.size_elements) == (8, "3x64x64", 3 * 64 * 64)
    assert (large.batch, other.regime_label) == (16, "cycle")
    assert small.precision_label == "tf32 H200"
    assert bf16.precision_label == "bf16 channels_last H100"
    (no_size,) = cells({"input_shape": "32"})
    assert (no_size.batch, no_size.size, no_size.size_elements) == (32, "", 1)
    assert no_size.cudnn == "cuDNN 9.19.0"
    assert cells({"cudnn": None})[0].cudnn is None


def test_what_all_cells_share_is_said_once() -> None:
    same = shared(cells({}, {"problem": "b"}))
    assert same[:4] == ["NVIDIA H200", "torch 2.11", "cuDNN 9.19.0", "driver 570"]
    assert "tf32" in same
    assert "tf32" not in shared(cells({}, {"precision": "bf16"}))
    assert "NVIDIA H200" not in shared(cells({}, {"gpu": "NVIDIA H100"}))
    assert shared([]) == []


def verdict(other_settings: str = "", **changes: Any) -> Verdict:
    usual: dict[str, Any] = {"cell_id": "x", "env_hash": "e", "software_hash": "s"}
    usual |= {"workload_hash": None}
    usual |= {"other_settings": other_settings, "loop_kind": "closed", "in_turns": True}
    return Verdict(**usual | {"ratio": 0.8, "wall_verdict": "helps"} | changes)


@pytest.mark.parametrize(
    ("verdicts", "lines"),
    [
        ([verdict()], ["line"]),
        ([verdict("layout=a, x=1"), verdict("layout=b, x=1")], ["line layout=a", "line layout=b"]),
        ([verdict("x=1")], ["line"]),
        ([verdict("x=1"), verdict()], ["line x=1", "line"]),
        ([verdict("x=0 beside x=1")], ["line x=0"]),
        ([verdict("x=0 beside x=1"), verdict("x=2 beside x=1")], ["line x=0", "line x=2"]),
        (
            [verdict("x=0, y=1 beside x=1"), verdict("x=2, y=1 beside x=1")],
            ["line x=0 y=1", "line x=2 y=1"],
        ),
        (
            [verdict("x=0 beside x=1"), verdict("x=0 beside x=2")],
            ["line x=0 beside x=1", "line x=0 beside x=2"],
        ),
        (
            [verdict(), verdict(in_turns=False)],
            ["line in turns", "line one after another"],
        ),
        ([verdict(in_turns=False), verdict(in_turns=False)], ["line", "line"]),
    ],
)
def test_a_verdict_is_labelled_by_the_settings_in_which_verdicts_differ(
    verdicts: list[Verdict], lines: list[str]
) -> None:
    cell: Any = SimpleNamespace(label="label", line="line")
    found = verdict_labels(verdicts, {verdicts[0].key: cell})
    assert [line for _, line in found] == lines
    labelled = [label.replace("label", "line", 1) for label, _ in found]
    if len(set(lines)) == len(lines):
        assert labelled == lines
    else:
        assert labelled == [f"{line} (closed loop)" for line in lines]


def test_loops_of_two_kinds_have_labels_of_their_own() -> None:
    cell: Any = SimpleNamespace(label="label", line="line")
    both = [verdict(), verdict(loop_kind="open", in_turns=False)]
    found = verdict_labels(both, {both[0].key: cell})
    assert found == [("label (closed loop)", "line"), ("label (open loop)", "line")]


@pytest.mark.parametrize(
    ("ratio", "size"), [(0.5, 2.0), (2.0, 2.0), (1.0, 1.0), (None, 0.0), (0.0, 0.0)]
)
def test_an_effect_is_as_large_either_way(ratio: float | None, size: float) -> None:
    assert effect(ratio) == size
    assert (rounded(1 / 3), rounded(float("nan")), rounded(None)) == (0.333333, None, None)


@pytest.mark.parametrize(
    ("most", "ids"), [(5, []), (6, ["c"]), (11, ["c"]), (12, ["c", "a"]), (18, ["c", "a", "b"])]
)
def test_trials_of_the_largest_effects_are_shown(
    monkeypatch: pytest.MonkeyPatch, most: int, ids: list[str]
) -> None:
    monkeypatch.setattr(content, "MOST_TRIALS", most)
    of: Any = [SimpleNamespace(cell_id=name, trials=3) for name in "aabbcc"]
    verdicts = [
        verdict(cell_id="a", ratio=1.5),
        verdict(cell_id="c", ratio=0.5),
        verdict(cell_id="a", ratio=1.0),
    ]
    compared: Any = [SimpleNamespace(verdicts=verdicts)]
    assert _shown(of, compared) == ids


def judged(cell: ReportCell, number: int, **changes: Any) -> Any:
    found = verdict(**{"cell_id": cell.cell_id} | changes)
    paid = BreakEven(
        cell_id=cell.cell_id, outcome="after", break_even_iterations=120.0, compute_cache="warm"
    )
    return SimpleNamespace(
        verdict=found,
        cell=cell,
        label=f"{cell.label} in turns",
        line=f"{cell.line} in turns",
        paybacks={"warm": paid},
        jobs=[{"cell_id": cell.cell_id, "steps": number}],
    )


def test_rows_of_a_report_name_their_cell_and_contrast_by_number() -> None:
    first, second = cells({"problem": None}, {"problem": "b", "regime": "cycle"})
    trial = {"cell_id": second.cell_id, "env_hash": "e", "software_hash": "s"}
    trials = pa.Table.from_pylist([{**trial, "workload_hash": None, "ms": 1.5}])
    failures = [{"trial_id": f"{number}"} for number in range(MOST_FAILURES + 1)]
    made: Any = SimpleNamespace(
        cells=[first, second],
        compared=[
            SimpleNamespace(cells=[judged(second, 7), judged(first, 8)]),
            SimpleNamespace(cells=[judged(first, 9, other_settings="off beside on")]),
        ],
        trials=trials,
        kernels=trials,
        environments=pa.table({"cudnn": [91900, None]}),
        sweeps=pa.table({"sweep_id": ["s"]}),
        failures=pa.Table.from_pylist(failures),
    )
    found = sheets(made)
    assert {name: len(sheet.rows) for name, sheet in found.items()} == {
        "cells": 2,
        "verdicts": 3,
        "paybacks": 3,
        "jobs": 3,
        "trials": 1,
        "kernels": 1,
        "environments": 2,
        "sweeps": 1,
        "failures": MOST_FAILURES,
    }
    verdicts = found["verdicts"]
    assert [*zip(verdicts.column("cell"), verdicts.column("contrast"), strict=True)] == [
        (1, 0),
        (0, 0),
        (0, 1),
    ]
    assert verdicts.column("grid_label")[1] == f"{first.grid_label} in turns"
    assert verdicts.column("warm_payback")[0] == "after 120"
    assert {*verdicts.column("empty_payback"), *verdicts.column("empty_iterations")} == {None}
    assert [*zip(verdicts.column("best"), verdicts.column("other"), strict=True)][1:] == [
        (None, None),
        ("on", "off"),
    ]
    assert found["jobs"].column("answer") == [0, 1, 2]
    assert found["trials"].column("cell") == [1]
    assert found["cells"].column("workload") == ["conv", "b"]
    assert found["environments"].column("cudnn") == ["9.19.0", None]
    for name, hidden in (("cells", "env_hash"), ("trials", "cell_id"), ("jobs", "cell_id")):
        assert hidden not in found[name].columns
    assert "cell_id" in found["cells"].columns
    numbers = {cell.key: at for at, cell in enumerate(made.cells)}
    about, of = next(iter(_answers(made, numbers)))
    assert _verdict(about, of)["verdict"] == "helps"


def test_a_column_of_floats_is_rounded_and_one_of_plain_values_stays() -> None:
    rows: list[dict[str, Any]] = [
        {"a": 1.23456789, "b": 1, "c": "x"},
        {"a": None, "b": None, "c": "y"},
    ]
    sheet = Sheet(columns=["a", "b", "c"], answered=rows)
    assert sheet.column("a") == [1.23457, None]
    assert sheet.rows == [(1.23457, 1, "x"), (None, None, "y")]
