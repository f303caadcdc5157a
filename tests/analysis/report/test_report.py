"""What a report says: its words, tables and formats, over small made-up stores."""

import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path

import altair as alt
import pytest
from typer.testing import Result

from cudnn_sweep.analysis.answering.contrast import Contrast
from cudnn_sweep.analysis.report.content import gather
from cudnn_sweep.analysis.report.delivery import as_html, as_markdown
from cudnn_sweep.analysis.report.payload import Payload, payload
from cudnn_sweep.analysis.report.pictures import drawn_rows, escaped_json, export, figures
from cudnn_sweep.analysis.report.sheets import Sheet, plain
from cudnn_sweep.analysis.storing.store import Store, open_store
from tests.analysis.conftest import in_cell, make_pair
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


def test_sizes_and_batches_of_one_workload_are_drawn_together(
    store: Store, add_cell: AddCell
) -> None:
    shapes = {"a": [8, 3, 64, 64], "b": [64, 3, 64, 64], "c": [8, 3, 128, 128]}
    for cell, shape in shapes.items():
        add_cell(cell, 1.0, problem=None, workload="net", input_shape=shape)
    add_cell("alone", 1.0)
    found = _payload(store)
    (batch_map,) = (each for each in figures() if each.name == "batch_map")
    rows = [
        (row["cell_id"], row["family"], row["size"], row["batch"], row["ratio"] is not None)
        for row in drawn_rows(found, batch_map)
    ]
    assert sorted(rows) == [
        ("a", "net", "3x64x64", 8, True),
        ("b", "net", "3x64x64", 64, True),
        ("c", "net", "3x128x128", 8, True),
    ]


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Payload:
    """The report of a sweep that was cut: cells of no block that counts, of one, two and three."""
    store = open_store(str(tmp_path_factory.mktemp("cut")))
    common: dict[str, object] = {"workload": CUT_NAME, "problem": None, "plan_trials": 64}
    common["looks"] = [3, 5, 8]
    for place, (ratio, blocks) in enumerate(CUT):
        changes = common | {"precision": ("fp32", "tf32", "fp16", "bf16")[place % 4]}
        changes |= {"input_shape": [64, 3, 224, 224 + place], "steady_device_ms": 9.0 * ratio}
        changes |= {} if blocks else {"warnings": ["throttled"]}
        for block in range(max(1, blocks)):
            for record in make_pair(block, 10.0, 10.0 * ratio * NOISE[block], **changes):
                store.write(in_cell(record, f"cell-{place}"))
    return _payload(store)


def test_a_cut_sweep_speaks_and_says_what_comes_next(cut: Payload) -> None:
    (contrast,) = cut.contrasts
    assert contrast.headline == (
        "benchmark: false → true: 5 of 8 cells decided (helps in 3, hurts in 1, makes no difference of 3% in 1), "
        "2 with one block, 1 not measured (throttled)."
    )
    largest, loss, following = contrast.sentences
    assert largest.startswith("Largest gain: ") and "10.0 → 1.29 ms" in largest
    assert loss.startswith("Largest loss: ")
    assert following == (
        "Next: the same sweep launch again gives each open cell its third block (about 1 minute of one "
        "GPU)."
    )
    text = as_markdown(cut)
    assert "not decided yet (1 block)" in text and "not measured: throttled" in text
    assert "inconclusive" not in text
    assert text.index("| helps |") < text.index("What it cost")


def test_the_first_chart_of_a_cut_sweep_spreads_its_marks(cut: Payload, tmp_path: Path) -> None:
    """A cell of one block has a device time and no interval."""
    assert {"heat_map.svg", "cold_cost.svg", "batch_map.svg"}.isdisjoint(
        path.name for path in export(cut, tmp_path)
    ), "nothing is compared there"
    drawn = (tmp_path / "effect.svg").read_text()
    marks = re.findall(r'aria-roledescription="point" transform="translate\(([\d.]+),', drawn)
    places = sorted(float(mark) for mark in marks)
    assert len(places) >= 7
    assert places[-1] - places[0] > 300
    assert len({round(place) for place in places}) >= 6


def test_what_is_not_finite_is_null() -> None:
    assert [plain(math.inf), plain(math.nan), plain(1.23456789), plain(None)] == [
        None,
        None,
        1.23457,
        None,
    ]
    assert plain(["a", "b"]) == "a, b"


def test_a_name_cannot_leave_its_block_of_data(store: Store, add_cell: AddCell) -> None:
    add_cell("hostile", 0.4, problem=HOSTILE, workload=HOSTILE)
    found = _payload(store)
    assert "<script" not in as_markdown(found)
    html = as_html(found)
    assert "window.pwned" in html and "<script>window.pwned" not in html
    (data,) = re.findall(
        r'<script type="application/json" id="report">(.*?)</script>', html, re.DOTALL
    )
    read = json.loads(data)["tables"]["cells"]
    assert read["rows"][0][read["columns"].index("workload")] == HOSTILE


def test_escaped_json_has_no_character_that_ends_anything() -> None:
    text = escaped_json({"name": HOSTILE})
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == {"name": HOSTILE}


def test_trials_beyond_the_cap_are_left_to_a_query(
    kept: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cudnn_sweep.analysis.report.content.MOST_TRIALS", 10)
    found = _payload(kept)
    assert len(found.tables["trials"].rows) == 8  # of the cell with the largest effect
    assert "16 trials of smaller effects are not in this file." in found.left_out
    assert found.trials_query.startswith(
        "sweep query \"select * from records where cell_id = 'CELL'\" --results "
    )
    assert len(as_html(found).encode()) < 1_200_000


def test_charts_are_exported(kept: Store, tmp_path: Path) -> None:
    folder = tmp_path / "charts"
    _report(kept, "--format", "json", "--charts", str(folder))
    assert {"effect.svg", "effect.png", "heat_map.svg", "stability.png"} <= {
        file.name for file in folder.iterdir()
    }
    assert (folder / "effect.png").read_bytes().startswith(b"\x89PNG")
    assert "var(--" not in (folder / "effect.svg").read_text()


def test_every_drawing_is_valid_vega_lite() -> None:
    for figure in figures():
        for drawing in figure.drawings.values():
            alt.Chart.from_dict(drawing)


def test_without_the_extra_the_command_names_it(
    kept: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "cudnn_sweep.analysis.report.pictures", raising=False)
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    found = _report(kept)
    assert found.exit_code == 2
    assert "pip install 'cudnn-sweep[report]'" in found.stderr
    assert _report(kept, "--format", "markdown").exit_code == 0


def test_no_effect_is_told_with_its_reason(store: Store, add_cell: AddCell) -> None:
    add_cell("cpu", 1.0, device="cpu", compute_cache=None, routes=["Mkldnn"])
    (contrast,) = _payload(store).contrasts
    assert contrast.counts["no_effect"] == 1
    assert contrast.headline.endswith("1 of 1 cell decided (cannot have an effect in 1).")
    assert contrast.sentences[-1] == "No effect is possible in 1 cell: there is no GPU."


def _payload(store: Store) -> Payload:
    return payload(gather(store, store.location, None, [BENCHMARK], 0.03))


def _column(found: Payload, table: str, name: str) -> list[object]:
    sheet: Sheet = found.tables[table]
    return [row[sheet.columns.index(name)] for row in sheet.rows]


def _report(store: Store, *options: str) -> Result:
    return invoke(["report", "--results", store.location, *options])
