"""What a report says: its words, tables and formats, over small made-up stores."""

import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import altair as alt
import pytest
from typer.testing import Result

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.report.content import asked, gather
from cudnn_sweep.analysis.report.delivery import (
    _libraries,
    _shortened,
    as_html,
    as_json,
    as_markdown,
    escaped_json,
    figures,
)
from cudnn_sweep.analysis.report.payload import Payload, payload
from cudnn_sweep.analysis.report.sheets import SHOWN, Sheet, plain
from cudnn_sweep.analysis.results.contrast import RACE, Contrast
from cudnn_sweep.analysis.store.schema import axes
from cudnn_sweep.analysis.store.store import Store, open_store
from tests.analysis.conftest import in_cell, make_pair, make_record
from tests.orchestrator.typed import invoke

BENCHMARK = Contrast(field="benchmark", baseline="false", candidate="true")
HOSTILE = "</script><script>window.pwned=1</script>\"'&\u2028"
CUT = ((0.129, 2), (0.5, 1), (0.9, 3), (0.95, 2), (1.0, 2), (1.01, 1), (1.3, 2), (0.7, 0))
CUT_NAME = "nets.patch_embedding:PatchEmbeddingOfLongVideos"
NOISE = (0.999, 1.0, 1.001, 1.0)  # of the candidate's time, a block


AddCell = Callable[..., None]


@pytest.fixture
def add_cell(store: Store) -> AddCell:
    return _adding_to(store)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A gain, a loss and no difference, under three regimes of one problem: for tests that only read it."""
    store = open_store(str(tmp_path_factory.mktemp("kept")))
    add_cell = _adding_to(store)
    add_cell("gain", 0.4, regime="fixed")
    add_cell("loss", 1.2, regime="cycle")
    add_cell("same", 1.0, regime="last_partial_batch")
    return store


def _adding_to(store: Store) -> AddCell:
    """Adds a cell of four blocks whose candidate takes `ratio` of 10 ms."""

    def add(cell: str, ratio: float, **changes: object) -> None:
        for block, noise in enumerate(NOISE):
            pair = make_pair(block, 10.0, 10.0 * ratio * noise, **changes)
            store.write(*(in_cell(record, cell) for record in pair))

    return add


@pytest.mark.long
def test_code_is_named_where_one_cell_ran_in_several_versions(
    store: Store, add_cell: AddCell
) -> None:
    add_cell("bundled", 1.0, regime="fixed")
    add_cell("mine", 1.0, regime="cycle", workload_hash="1" * 16)
    assert _column(_payload(store), "cells", "label") == ["vgg_256_56 cycle", "vgg_256_56 fixed"]
    add_cell("mine", 1.0, regime="cycle", workload_hash="2" * 16, sweep_id="edited")
    assert _column(_payload(store), "cells", "label") == [
        "vgg_256_56 cycle code 111111",
        "vgg_256_56 cycle code 222222",
        "vgg_256_56 fixed",
    ]


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Payload:
    """The report of a sweep that was cut: cells of no block that counts, of one, two and three."""
    store = open_store(str(tmp_path_factory.mktemp("cut")))
    common: dict[str, object] = {"workload": CUT_NAME, "problem": None, "plan_trials": 64}
    common |= {"plan_cells": 11, "looks": [3, 5, 8]}
    for place, (ratio, blocks) in enumerate(CUT):
        changes = common | {"precision": ("fp32", "tf32", "fp16", "bf16")[place % 4]}
        changes |= {"input_shape": [64, 3, 224, 224 + place], "steady_device_ms": 9.0 * ratio}
        changes |= {} if blocks else {"warnings": ["throttled"]}
        for block in range(max(1, blocks)):
            for record in make_pair(block, 10.0, 10.0 * ratio * NOISE[block], **changes):
                store.write(in_cell(record, f"cell-{place}"))
    return _payload(store)


@pytest.mark.slow
def test_a_cut_sweep_says_what_it_knows_and_what_is_missing(cut: Payload) -> None:
    (contrast,) = cut.contrasts
    assert contrast.headline == (
        "benchmark: false → true: 5 of 11 cells decided (helps in 3, hurts in 1, "
        "makes no difference of 3% or more in 1), 2 with one block, 1 not measured (throttled), 3 without a block."
    )
    assert any("recorded (3 cells without any block); launch" in each for each in cut.left_out)
    largest, loss = contrast.sentences
    assert largest.startswith("Largest gain: ") and "10.0 → 1.29 ms" in largest
    assert loss.startswith("Largest loss: ")
    text = as_markdown(cut)
    assert "not decided yet (1 block)" in text and "not measured: throttled" in text
    assert "inconclusive" not in text
    assert text.index("| helps |") < text.index("What it cost")


@pytest.mark.long
def test_a_watched_report_is_written_until_the_sweep_has_ended(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    off, on = make_pair(0, 10.0, 8.0, ends_launch=False)
    store.write(off, on)
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        store.write(*make_pair(len(waits), 10.0, 8.0, ends_launch=len(waits) == 2))

    monkeypatch.setattr(sys.modules["cudnn_sweep.orchestrator.cli.report"], "sleep", wait)
    page = tmp_path / "page.html"
    written = _report(store, "--watch", "--output", str(page)).stdout
    assert len(waits) == 2 and written.count("page.html: ") == 3
    assert '"trial-2-true"' in page.read_text()


@pytest.mark.parametrize("other", ["--page claims", "--json"])
def test_watching_anything_but_the_report_as_a_page_is_a_mistake(store: Store, other: str) -> None:
    refused = _report(store, "--watch", *other.split())
    assert refused.exit_code == 2 and "allowed: the HTML report" in refused.output


@pytest.mark.slow
def test_what_a_failed_trial_printed_is_on_no_page(store: Store) -> None:
    """A page is shared, and nobody has looked at what a user's code prints."""
    wrong = {"status": "error", "message": "it is wrong", "last_output": "KEY=5f3a"}
    store.write(make_record(**wrong))
    with open_database(store) as database:
        assert database.ask("failures")["last_output"].to_pylist() == ["KEY=5f3a"]
    content = _payload(store)
    assert "Commits" not in content.cost
    page, text = as_html(content), as_markdown(content)
    assert "it is wrong" in page
    assert "KEY=5f3a" not in page + text


def test_what_is_not_finite_is_null() -> None:
    assert [plain(math.inf), plain(math.nan), plain(1.23456789), plain(None)] == [
        None,
        None,
        1.23457,
        None,
    ]
    assert plain(["a", "b"]) == "a, b"


def test_escaped_json_has_no_character_that_ends_anything() -> None:
    text = escaped_json({"name": HOSTILE})
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == {"name": HOSTILE}


@pytest.mark.long
def test_trials_beyond_the_cap_are_left_to_a_query(
    kept: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cudnn_sweep.analysis.report.content.MOST_TRIALS", 10)
    found = _payload(kept)
    assert len(found.tables["trials"].rows) == 8  # of the cell with the largest effect
    assert "16 trials of cells with small effects are not in this file." in found.left_out
    assert found.trials_query.startswith(
        "sweep query \"select * from records where cell_id = 'CELL'\" --results "
    )
    assert len(as_html(found).encode()) < 1_200_000


@pytest.mark.slow
def test_equal_rows_keep_one_order_and_commits_with_one_mark_are_named(store: Store) -> None:
    """Sums over threads end in other digits each time; a trial_id repeats in each sweep."""
    for problem, more_ms in {"a": 1e-9, "b": 0.0, "c": 1e-9}.items():
        for sweep, commit in {"late": "d" * 40, "early": "e" * 40}.items():
            changes = {"problem": problem, "sweep_id": sweep, "commit": commit}
            pair = make_pair(0, 10.0, 8.0 + more_ms, **changes)
            store.write(*(in_cell(record, problem) for record in pair))
    found = _payload(store)
    assert _column(found, "verdicts", "cell") == [0, 1, 2]
    assert _column(found, "trials", "sweep_id") == ["early", "late"] * 6
    assert found.cost.endswith(" Results of commits ddddddd and eeeeeee are judged together.")


def test_times_on_a_line_are_given_by_their_ends() -> None:
    job = {
        "steps": "100 200 500",
        "baseline_s": "1.00001 2 5",
        "candidate_s": "1 2 4",
        "start": "warm",
    }
    assert _shortened(job) == job | {"baseline_s": "1.00001 5"}


@pytest.mark.long
def test_a_page_leaves_out_what_it_does_not_show(kept: Store) -> None:
    found = _payload(kept)
    data = as_html(found).partition('id="report">')[2].partition("</script>")[0]
    tables = json.loads(data)["tables"]
    assert found.tables["paybacks"].rows and "paybacks" not in tables
    assert tables["verdicts"]["rows"] == len(found.tables["verdicts"].rows)
    assert set(tables["verdicts"]["columns"]) > {*SHOWN, "empty_iterations", "warm_iterations"}
    assert set(tables["cells"]["columns"]) > {"cell_id", "label", "trials", "gpu", *axes()}
    assert "error_share" in found.tables["verdicts"].columns
    assert "error_share" not in tables["verdicts"]["columns"]


@pytest.mark.long
def test_a_report_of_held_rows_lacks_their_kernels_alone(
    kept: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _payload(kept)
    monkeypatch.setattr("cudnn_sweep.analysis.engine.database.FEW_ROWS", -1)
    held = _payload(kept)
    assert found.tables["kernels"].rows and not held.tables["kernels"].rows
    tables = {**held.tables, "kernels": found.tables["kernels"]}
    assert as_json(replace(held, tables=tables)) == as_json(found)


@pytest.mark.slow
def test_every_drawing_is_valid_vega_lite() -> None:
    for figure in figures():
        alt.Chart.from_dict(figure.drawing)


@pytest.mark.long
def test_without_the_extra_the_command_names_it(
    kept: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    _libraries.cache_clear()
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    found = _report(kept)
    assert found.exit_code == 2
    assert "pip install 'cudnn-sweep[report]'" in found.stderr
    assert _report(kept, "--format", "markdown").exit_code == 0


def _payload(store: Store) -> Payload:
    with open_database(store) as database:
        database.hold_rows(asked())
        return payload(gather(database, store.location, [BENCHMARK], 0.03))


@pytest.mark.long
def test_a_race_compares_its_best_config_and_has_no_cell_of_what_was_raced_out(
    store: Store,
) -> None:
    for block in range(3):
        off, on = make_pair(block, 10.0, 8.0 + block / 1000, workload_hash="abcdef0123456789")
        slow = replace(off, trial_id=f"slow-{block}", deterministic=True, benchmark=False)
        out = {"status": "raced_out", "workload_hash": None, "steady_wall_ms": None}
        store.write(off, on, replace(slow, **(out if block else {"steady_wall_ms": 20.0})))
    report = json.loads(_report(store, "--json").stdout)
    race, *_ = report["contrasts"]
    assert race["name"] == "race: best → other"
    assert len(report["tables"]["cells"]["rows"]) == 1
    sheet = report["tables"]["verdicts"]
    named = [row[sheet["columns"].index("label")] for row in sheet["rows"]]
    assert {name.partition(" ")[2] for name in named[:2]} >= {"benchmark=false"}


@pytest.mark.slow
def test_stages_of_a_race_that_differ_in_the_best_config_have_names_of_their_own(
    store: Store,
) -> None:
    for stage, deterministic in (("first", False), ("second", True)):
        for block in range(3):
            other, best = make_pair(block, 10.0, 8.0 + block / 1000, sweep_id=stage)
            store.write(other, replace(best, deterministic=deterministic))
    with open_database(store) as database:
        content = gather(database, [store.location], [RACE], 0.03)
    assert {cell.label.partition(" ")[2] for cell in content.compared[0].cells} == {
        "benchmark=false beside benchmark=true",
        "benchmark=false beside benchmark=true deterministic=true",
    }


def test_a_gate_s_sides_are_compared_though_their_code_differs(store: Store) -> None:
    for block in range(3):
        base, head = make_pair(block, 10.0, 8.0 + block / 1000)
        store.write(
            replace(base, benchmark=False, code="base:a", workload_hash="abcdef0123456789"),
            replace(head, benchmark=False, code="head:b", workload_hash="bcdef0123456789a"),
        )
    contrast = Contrast(field="code", baseline="base:a", candidate="head:b")
    with open_database(store) as database:
        found = payload(gather(database, [store.location], [contrast], 0.03))
    assert _column(found, "verdicts", "ratio") == [pytest.approx(0.8, rel=1e-3)]
    assert _column(found, "verdicts", "cell")[0] in (0, 1)


def _column(found: Payload, table: str, name: str) -> list[object]:
    sheet: Sheet = found.tables[table]
    return [row[sheet.columns.index(name)] for row in sheet.rows]


def _report(store: Store, *options: str) -> Result:
    return invoke(["report", "--results", store.location, *options])
