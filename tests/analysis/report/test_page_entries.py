"""Paragraphs of pages: a reported case, what carries over, and names of rows without a cell."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from cudnn_sweep.analysis.engine.axes import NAMED
from cudnn_sweep.analysis.report.pages import page
from cudnn_sweep.analysis.report.pages.field_cases import entry as case_of
from cudnn_sweep.analysis.report.pages.transfers import SHARES, TURNED
from cudnn_sweep.analysis.report.pages.transfers import entry as transfer_of
from cudnn_sweep.analysis.store.location import REFERENCE


def case(**columns: Any) -> Any:
    texts = ("address", "claim", "contrast", "cause", "because", "assumed", "gpu", "kind", "holds")
    usual = dict.fromkeys((*texts, "baseline_routes", "candidate_routes", "torch_then"))
    usual |= dict.fromkeys(("cudnn_then", "gpu_then", "measure", "bound", "value", "value_low"))
    usual |= dict.fromkeys(("value_high", "baseline_value", "candidate_value"))
    usual |= {"case_id": "N1", "outcome": "gone", "workload": "conv", "regime": "fixed"}
    return case_of(usual | columns)


RATIO = {"value": 1.25, "value_low": 1.2, "value_high": 1.3}


@pytest.mark.parametrize(
    ("columns", "today"),
    [
        ({}, None),
        (
            RATIO | {"measure": "wall", "baseline_value": 4.0, "candidate_value": 5.0},
            "wall time, ms: 4.00 → 5.00, ratio 1.250 (1.200 to 1.300)",
        ),
        (
            RATIO | {"measure": "memory", "baseline_value": 4e6, "candidate_value": 5e6},
            "peak memory reserved, MB: 4.00 → 5.00, ratio 1.250 (1.200 to 1.300)",
        ),
        (
            RATIO | {"measure": "cold_ms", "baseline_value": 1.25},
            "first call, ms: 1.25 (1.20 to 1.30)",
        ),
        ({"value": 1.25, "measure": "choices"}, "different choices of kernels: 1.25"),
    ],
)
def test_a_case_has_the_measurement_of_today(columns: dict[str, Any], today: str | None) -> None:
    assert case(**{"holds": "above", "bound": 1.03} | columns).facts["today"] == today


@pytest.mark.parametrize(
    ("columns", "bound"),
    [
        ({}, None),
        ({"measure": "wall", "holds": "above", "bound": 1.03}, "ratio of wall time above 1.03"),
        (
            {"measure": "wall", "holds": "within", "bound": 1.25},
            "ratio of wall time within 0.800 and 1.25",
        ),
        (
            {"measure": "failed", "holds": "above", "bound": 0.5, "kind": "bound"},
            "share of processes that fail above 0.5",
        ),
    ],
)
def test_a_case_says_when_its_claim_holds(columns: dict[str, Any], bound: str | None) -> None:
    assert case(**columns).facts["claim holds if"] == bound


@pytest.mark.parametrize(
    ("columns", "then"),
    [
        ({}, ""),
        ({"torch_then": "1.13", "cudnn_then": "8.5", "gpu_then": "V100"}, "torch 1.13, cuDNN 8.5, on V100"),
        ({"torch_then": "<= 1.13", "gpu_then": "unstated"}, "torch <= 1.13"),
        ({"torch_then": "TensorFlow 2", "cudnn_then": "unstated"}, "TensorFlow 2"),
        ({"torch_then": "2019-05"}, "2019-05"),
    ],
)  # fmt: skip
def test_a_case_names_the_software_of_then(columns: dict[str, Any], then: str) -> None:
    assert case(**columns).facts["then"] == then


def test_a_case_of_a_fixed_convolution_has_a_script_and_routes_once() -> None:
    made = case(baseline_routes="a", candidate_routes="b")
    assert (made.facts["routes"], made.command) == ("a → b", "sweep repro N1")
    assert case(baseline_routes="a", candidate_routes="a").facts["routes"] == "a"
    assert case(candidate_routes="b").facts["routes"] == "b"
    assert case(workload="net").command is None
    assert case(regime="cycle").command is None


def test_what_carries_over_is_a_share_and_what_turned_a_cell() -> None:
    row = {"of_a": "A", "of_b": "B", "cell_id": None, "what": "verdict", "carried": 3, "cells": 4}
    share = transfer_of(row | {"share": 0.75, "share_low": 0.2, "share_high": 0.99})
    assert (share.group, share.said) == (SHARES, "3 of 4 cells, 75% (20% to 99%)")
    assert share.facts == {"between": "A → B"}
    turned = {"cell_id": "x", "cell": "conv", "a": "helps", "b": "hurts", "why": "choices"}
    cell = transfer_of(row | turned)
    assert (cell.group, cell.name, cell.said) == (TURNED, "conv", "helps → hurts")
    assert cell.facts == {"between": "A → B", "because of": "choices"}


def test_a_row_has_the_name_of_its_cell_or_of_its_own_columns() -> None:
    cell = dict.fromkeys(NAMED) | {"workload": "conv", "problem": "vgg/conv1", "cell_id": "x"}
    database: Any = SimpleNamespace(query=lambda _: pa.Table.from_pylist([cell]))
    of_cell, own, changed, other = page._named(
        database,
        [
            {"cell_id": "x", "precision": None},
            {"cell_id": None, "workload": "net", "problem": None},
            {"cell_id": "x", "precision": "bf16"},
            {"gpu": "H200"},
        ],
    )
    assert (of_cell["cell"], own["cell"], changed["cell"]) == ("vgg/conv1", "net", "vgg/conv1 bf16")
    assert "cell" not in other


def test_a_page_names_gpus_with_a_driver_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = {"gpu": "H200", "torch": "2.11", "cudnn": 91900, "driver": "570"}
    rows = [gpu, gpu, gpu | {"gpu": "A100"}, gpu | {"driver": None}, gpu | {"gpu": None}]
    monkeypatch.setattr(page, "_named", lambda _, rows: rows)
    database: Any = SimpleNamespace(ask=lambda *_, **__: pa.Table.from_pylist(rows))
    of: Any = SimpleNamespace(
        questions=("one", "two"), entries=lambda rows, options: [(len(rows), options)]
    )
    shown = page.show(of, database, ["a b", str(REFERENCE)], "night-*")
    versions = "torch 2.11, cuDNN 9.19.0, driver 570"
    assert shown.measured == [f"A100, {versions}", f"H200, {versions}"]
    found: Any = shown.entries
    assert found == [(10, "--results 'a b' --reference --sweep-id 'night-*'")]
