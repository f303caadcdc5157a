"""What a report says and which values its tables hold, of contents that are made up."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from cudnn_sweep.analysis.report import payload as payloads
from cudnn_sweep.analysis.report.delivery import _contrast, _each_once, _table
from cudnn_sweep.analysis.report.payload import (
    _failing,
    _in_words,
    _largest,
    _left_out,
    _paid,
    cost,
    sentences,
)
from cudnn_sweep.analysis.report.sheets import SHOWN, Sheet, _sheet, plain


def verdict(**changes: Any) -> Any:
    usual = {"wall_verdict": "helps", "ratio": 0.8, "ratio_low": 0.7, "ratio_high": 0.9}
    times = {"baseline_ms": 2.0, "candidate_ms": 1.6, "loop_kind": "closed", "key": "a"}
    counts = {"blocks": 3, "unpaired_blocks": 2, "candidate_failed": 4, "baseline_failed": 1}
    return SimpleNamespace(**usual | times | counts | {"no_effect_reason": None} | changes)


def judged(label: str = "conv", paybacks: Any = None, **changes: Any) -> Any:
    cell = SimpleNamespace(label=label)
    return SimpleNamespace(verdict=verdict(**changes), cell=cell, paybacks=paybacks or {})


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verdicts have no further lines."""
    monkeypatch.setattr(payloads, "further_lines", lambda *_: [])
    monkeypatch.setattr(payloads, "more_blocks", lambda _: [])


def of_cells(*cells: Any, is_twins: bool = False) -> Any:
    contrast = SimpleNamespace(is_twins=is_twins)
    return SimpleNamespace(
        cells=cells, contrast=contrast, verdicts=[cell.verdict for cell in cells]
    )


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize(
    ("cells", "beginnings"),
    [
        ([judged()], ["Largest gain: conv: "]),
        ([judged(wall_verdict="so_far_faster")], ["Largest gain so far: conv: "]),
        (
            [judged(wall_verdict="so_far_faster"), judged("pool")],
            ["Largest gain: pool: "],
        ),
        (
            [judged(), judged("pool", wall_verdict="hurts", ratio=1.2)],
            ["Largest gain: conv: ", "Largest loss: pool: "],
        ),
        ([judged(wall_verdict="inconclusive")], ["No gain or loss is proven yet."]),
        ([judged(), judged(wall_verdict="inconclusive")], ["Largest gain: conv: "]),
        ([judged(wall_verdict="undecided")], []),
        ([judged(wall_verdict="fails")], ["conv fails with the candidate in 4 of 5 blocks"]),
    ],
)
def test_sentences_name_the_largest_gain_and_loss(cells: list[Any], beginnings: list[str]) -> None:
    found = sentences(of_cells(*cells))
    assert len(found) == len(beginnings)
    for sentence, beginning in zip(found, beginnings, strict=True):
        assert sentence.startswith(beginning)


def test_the_largest_effect_is_the_one_furthest_from_equal_times() -> None:
    assert "pool" in _largest("gain", [judged("conv", ratio=0.9), judged("pool", ratio=0.6)])
    assert "pool" in _largest("loss", [judged("conv", ratio=1.1), judged("pool", ratio=1.9)])


@pytest.mark.parametrize(
    ("changes", "ends"),
    [
        ({"loop_kind": "open", "wall_verdict": "hurts"}, True),
        ({"loop_kind": "open"}, False),
        ({"wall_verdict": "hurts"}, False),
    ],
)
def test_a_loss_in_an_open_loop_never_ends(changes: dict[str, Any], ends: bool) -> None:
    text = _largest("loss", [judged(**changes)])
    assert ("searches never end" in text) is ends


def test_only_a_gain_says_when_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "_paid", lambda _: ", paid back")
    assert ", paid back" in _largest("gain", [judged()])
    assert ", paid back" not in _largest("loss", [judged(wall_verdict="hurts")])


def test_break_even_points_of_open_loops_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "payback", lambda row: row.text)
    rows = {
        "warm": SimpleNamespace(loop_kind="closed", text="after 5"),
        "empty": SimpleNamespace(loop_kind="open", text="never"),
    }
    text = _paid(rows)  # type: ignore[arg-type]
    assert "after 5" in text
    assert "never" not in text
    assert "after 5" not in _paid({})


def test_failures_count_the_blocks_with_and_without_a_pair() -> None:
    text = _failing(judged())
    assert "in 4 of 5 blocks, with the baseline in 1" in text


def content(**changes: Any) -> Any:
    usual: dict[str, Any] = {
        "failures": pa.table({"status": pa.array([], pa.string())}),
        "cells": [SimpleNamespace(trials=4, gpu="H200")],
        "trials": pa.table({"trial": [1, 2, 3, 4]}),
        "sweeps": pa.table({"planned": [4], "recorded": [4], "not_begun": [0]}),
        "torn_files": [],
        "min_effect": 0.03,
        "environments": pa.table({"commits": [["0123456789"]]}),
        "time_shares": [
            SimpleNamespace(total_s=60.0, measuring=True),
            SimpleNamespace(total_s=180.0, measuring=False),
        ],
    }
    return SimpleNamespace(**usual | changes)


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({}, []),
        (
            {"failures": pa.table({"status": ["error", "killed", "error"]})},
            ["3 trials did not end well: 2 error, 1 killed."],
        ),
        (
            {"sweeps": pa.table({"planned": [6, 4], "recorded": [4, 4], "not_begun": [1, 0]})},
            ["2 trials planned but not recorded (1 cell without any block); "],
        ),
        (
            {"sweeps": pa.table({"planned": [4], "recorded": [6], "not_begun": [0]})},
            [],
        ),
        ({"torn_files": ["a.parquet"]}, ["The file a.parquet is damaged."]),
        (
            {"trials": pa.table({"trial": [1]})},
            ["3 trials of cells with small effects are not in this"],
        ),
    ],
)
def test_what_is_left_out_is_said_with_its_reason(
    changes: dict[str, Any], reasons: list[str]
) -> None:
    found = _left_out(content(**changes))
    assert len(found) == len(reasons)
    for sentence, reason in zip(found, reasons, strict=True):
        assert sentence.startswith(reason)


@pytest.mark.parametrize(("not_begun", "cells"), [([2], 3), ([0], 1), ([2, 1], 1)])
def test_cells_without_a_block_count_if_there_is_one_sweep(
    monkeypatch: pytest.MonkeyPatch, not_begun: list[int], cells: int
) -> None:
    monkeypatch.setattr(payloads, "headline", lambda verdicts, _, of_cells: str(of_cells))
    monkeypatch.setattr(payloads, "sentences", lambda _: [])
    monkeypatch.setattr(payloads, "blocks_left_out", lambda _: [])
    compared = of_cells(judged())
    compared.contrast.values = lambda: {"field": "benchmark", "baseline": None}
    counts = pa.table({"not_begun": not_begun})
    words = _in_words(content(sweeps=counts), compared, "--results r")
    assert words.headline == str(cells)
    assert words.counts == {"helps": 1}


def test_a_report_says_what_it_cost() -> None:
    assert cost(content()).endswith("of H200, 25% of that time for measuring.")
    assert cost(content()).startswith("What it cost: 4 trials in 1 sweep, ")
    assert cost(content(time_shares=[])).endswith("of H200.")


@pytest.mark.parametrize(
    ("values", "once", "places"),
    [
        (["a", "a", "a", "b"], ["a", "b"], [0, 0, 0, 1]),
        (["a", "b", "a", "b"], ["a", "b"], [0, 1, 0, 1]),
        (["a", "b", "a"], ["a", "b", "a"], None),
        (["a", "a"], ["a"], None),
        (["a"], ["a"], None),
        ([], [], None),
    ],
)
def test_a_column_has_each_value_once_if_that_is_shorter(
    values: list[Any], once: list[Any], places: list[int] | None
) -> None:
    found, at = _each_once(values)
    assert ([*found], at) == (once, places)


def test_a_table_leaves_out_empty_columns() -> None:
    text = _table({"cell": ["conv", None], "empty": [None, None]})
    assert "conv" in text
    assert "empty" not in text


def test_a_contrasts_table_has_its_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"contrast": number, **{column: f"{column} {number}" for column in SHOWN}}
        for number in (0, 1)
    ]
    contrast: Any = SimpleNamespace(
        sentences=["first", "second", "third", "fourth"], name="n", headline="h", left_out=[]
    )
    sheet = Sheet(columns=[*rows[0]], answered=rows)
    parts = _contrast(sheet, 1, contrast)
    column = next(iter(SHOWN))
    assert f"{column} 1" in "\n".join(parts)
    assert f"{column} 0" not in "\n".join(parts)


def test_a_sheet_has_plain_values_and_leaves_out_what_is_not_its_own() -> None:
    sheet = _sheet([{"cell": 1, "torch": "2", "ms": 1.5}], ["torch"])
    assert sheet.columns == ["cell", "ms"]
    assert _sheet([]).columns == []
    mixed = _sheet([{"ms": 1, "at": datetime(2026, 1, 2, tzinfo=UTC), "list": [1, 2]}])
    assert mixed.rows == [(1, "2026-01-02 00:00:00+00:00", "1, 2")]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (3, 3),
        (True, True),
        ("a", "a"),
        (float("nan"), None),
        (float("inf"), None),
        (0.5, 0.5),
        ([1, "b"], "1, b"),
        ((1, 2), "(1, 2)"),
    ],
)
def test_a_value_is_one_that_json_holds(value: object, expected: object) -> None:
    assert plain(value) == expected
