"""A report's three formats, of a payload that is made up."""

import base64
import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from cudnn_sweep.analysis.report import delivery
from cudnn_sweep.analysis.report.delivery import _shortened, as_html, as_json, as_markdown
from cudnn_sweep.analysis.report.payload import ComparedWords, Payload
from cudnn_sweep.analysis.report.sheets import SHOWN, Sheet

CHARTS = "/* the bundle of charts */"
JOB = {"steps": "1 2 3", "baseline_s": "1 2 3", "candidate_s": "1 2 9", "nobody_reads": 1}


def sheet(*rows: dict[str, Any]) -> Sheet:
    return Sheet(columns=[*rows[0]] if rows else [], answered=rows)


@pytest.fixture
def made() -> Payload:
    shown = {"contrast": 0, "label": "conv", "verdict": "helps", "nobody_reads": 1}
    contrast = ComparedWords(
        name="benchmark: off → on",
        headline="1 of 1 cell decided.",
        sentences=["First.", "Second.", "Third.", "Fourth."],
        left_out=["1 block split."],
        jobs_query="sweep query advice",
        counts={"helps": 1},
    )
    return Payload(
        location="results",
        min_effect=0.03,
        common=["NVIDIA H200", "torch 2.11"],
        axes=["workload"],
        nothing=None,
        cost="What it cost: nothing.",
        contrasts=[contrast],
        left_out=["The file x is damaged."],
        warnings=["1 trial: throttled."],
        trials_query="sweep query trials",
        failures_query="sweep query failures",
        tables={
            "cells": sheet({"cell_id": "c", "label": "conv", "nobody_reads": 1}),
            "verdicts": sheet({**dict.fromkeys(SHOWN), **shown}),
            "jobs": sheet(JOB),
            "paybacks": sheet({"cell": 0}),
            "sweeps": sheet({"sweep_id": "s", "nobody_reads": 1}),
            "environments": sheet({"gpu": "NVIDIA H200", "driver": None}),
        },
    )


@pytest.fixture
def page(made: Payload, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(delivery, "_libraries", lambda: CHARTS)
    return as_html(made)


def test_a_page_has_the_columns_that_its_script_reads_and_no_paybacks(page: str) -> None:
    block = page.partition('id="report">')[2].partition("</script>")[0]
    data = json.loads(block)
    tables = data["tables"]
    assert set(tables) == {"cells", "verdicts", "jobs", "sweeps", "environments"}
    assert tables["cells"]["columns"] == ["cell_id", "label"]
    assert "nobody_reads" not in tables["verdicts"]["columns"]
    assert {*SHOWN, "contrast", "verdict"} <= {*tables["verdicts"]["columns"]}
    assert tables["sweeps"]["columns"] == ["sweep_id", "nobody_reads"]
    times = dict(zip(tables["jobs"]["columns"], tables["jobs"]["values"], strict=True))
    assert (times["baseline_s"], times["candidate_s"]) == (["1 3"], ["1 2 9"])
    assert [each["field"] for each in data["shown"]] == list(SHOWN)
    assert data["cost"] == "What it cost: nothing."


def test_a_page_runs_its_two_scripts_alone_and_has_its_own_style(page: str) -> None:
    digest = base64.b64encode(hashlib.sha256(CHARTS.encode()).digest()).decode()
    assert CHARTS in page and f"'sha256-{digest}'" in page
    assert page.count("'sha256-") == 2
    style = page.partition("<style>")[2].partition("</style>")[0]
    assert "color-scheme: light dark" in style and "--helps" in style
    assert len(style) > 4000


@pytest.mark.parametrize(
    ("times", "shown"),
    [
        ("1 2 3", "1 3"),
        ("1 2.00001 3", "1 3"),
        ("1 2.0001 3", "1 2.0001 3"),
        ("1 9 3", "1 9 3"),
        ("5 5 5", "5 5"),
    ],
)
def test_times_between_two_ends_are_left_out_if_they_lie_on_a_line(times: str, shown: str) -> None:
    job = {"steps": "10 20 30", "baseline_s": times, "candidate_s": "7 1 7"}
    assert _shortened(job) == {**job, "baseline_s": shown}


def test_two_times_and_equal_steps_stay_as_they_are() -> None:
    for steps in ("10 20", "10 10"):
        job = {"steps": steps, "baseline_s": "1 2", "candidate_s": "3 4"}
        assert _shortened(job) == job
    same = {"steps": "10 10 10", "baseline_s": "1 1 1", "candidate_s": "1 2 1"}
    assert _shortened(same)["baseline_s"] == "1 1"


def test_json_is_readable_and_has_every_column(made: Payload) -> None:
    text = as_json(made)
    assert text.endswith("}\n") and text.startswith('{\n "location"')
    tables = json.loads(text)["tables"]
    assert tables["cells"] == {
        "columns": ["cell_id", "label", "nobody_reads"],
        "rows": [["c", "conv", 1]],
    }
    assert tables["paybacks"]["rows"] == [[0]]


def test_markdown_has_its_sections_in_order(made: Payload) -> None:
    text = as_markdown(made)
    parts = [part for part in text.splitlines() if part]
    assert parts[:2] == ["# cuDNN sweep report", "NVIDIA H200 · torch 2.11"]
    order = ["1 of 1 cell decided.", "First.", "Third.", "| cell", "- Fourth.", "- 1 block split."]
    order += [
        "## What was left out",
        "- The file x is damaged.",
        "## Warnings",
        "- 1 trial: throttled.",
    ]
    order += ["## Environment", "What it cost: nothing.", "| gpu"]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "driver" not in text, "an empty column"
    assert text.endswith("|\n") and "\n\n\n" not in text


def test_markdown_without_an_answer_says_why(made: Payload) -> None:
    empty = {**made.tables, "environments": sheet()}
    nothing = replace(made, contrasts=[], left_out=[], warnings=[], nothing="No trial.", cost="")
    text = as_markdown(replace(nothing, tables=empty, common=[]))
    assert text == "# cuDNN sweep report\n\nNo trial.\n"
