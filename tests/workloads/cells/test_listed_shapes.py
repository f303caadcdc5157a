"""Shapes that a user lists in a file."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from cudnn_sweep.cluster.strict_yaml import read_strict
from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.expand import expand_cells
from cudnn_sweep.workloads.cells.listed_shapes import Listed, read_rows
from cudnn_sweep.workloads.cells.suite import SuiteSpec
from cudnn_sweep.workloads.records.row import ListedShape
from tests.conftest import ROOT
from tests.workloads.made_up_cells import MODEL

NET = "net.py:Net"
FACTS = {NET: MODEL}
TABLE = "batch,height,width,count\n8,64,96,30\n8,96,64,10\n4,64,96,1\n"


def cells_of(folder: Path, table: str, regime: str = "", **more: str) -> list[Cell]:
    """Of a suite whose file lies in another folder than the one that tests run in."""
    (folder / "shapes.csv").write_text(table)
    keys = {"input": "8x3x96x96", "regime": regime or "{listed: {file: shapes.csv}}", **more}
    lines = "".join(f"    {key}: {value}\n" for key, value in keys.items())
    (folder / "suite.yaml").write_text(f"cells:\n  - workload: {NET}\n{lines}")
    suite = read_strict(folder / "suite.yaml", SuiteSpec)
    sent = SuiteSpec.model_validate_json(suite.model_dump_json())
    assert sent == suite, "a node has no such file"
    return expand_cells(sent, FACTS, device="cpu", gpu="any")


def test_shapes_come_as_often_as_they_are_counted(tmp_path: Path) -> None:
    (cell,) = cells_of(tmp_path, TABLE)
    period = cell.shapes().period(cell.input_shape)
    assert period is not None
    counted = {(8, 3, 64, 96): 30, (8, 3, 96, 64): 10, (4, 3, 64, 96): 1}
    assert Counter(period) == counted, "an epoch of fewer steps than `draws` comes whole"
    assert list(period) != sorted(period), "in random order"
    (cell,) = cells_of(tmp_path, TABLE.replace("30", "300000"))
    drawn = cell.shapes().period(cell.input_shape)
    assert drawn is not None and len(drawn) == 100
    assert Counter(drawn).most_common(1)[0] == ((8, 3, 64, 96), 100)


def test_a_cell_is_known_by_what_its_file_says(tmp_path: Path) -> None:
    ids = [
        cells_of(tmp_path, table)[0].cell_id
        for table in (TABLE, f"# of March\n{TABLE}\n", TABLE.replace("30", "31"))
    ]
    assert ids[0] == ids[1] != ids[2]


def test_what_a_file_leaves_out_is_the_cells(tmp_path: Path) -> None:
    found = cells_of(tmp_path, "height,width\n32,64\n", batch="[2, 4]")
    assert [cell.shapes().period(cell.input_shape) for cell in found] == [
        ((2, 3, 32, 64),),
        ((4, 3, 32, 64),),
    ]
    (volumes,) = cells_of(tmp_path, "batch,depth,height,width\n1,8,9,7\n", input="2x3x8x8x8")
    assert volumes.shapes().period(volumes.input_shape) == ((1, 3, 8, 9, 7),)
    (sentences,) = cells_of(tmp_path, "length,count\n5,2\n", input="2x16")
    assert sentences.shapes().period(sentences.input_shape) == ((2, 5), (2, 5))


def test_the_recipe_of_the_document_writes_such_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs" / "your-model.md").read_text()
    (recipe,) = re.findall(
        r"((?:^    .*\n|^\n)+)", text.partition("write_shapes.py")[2], re.MULTILINE
    )[:1]
    code = "\n".join(line[4:] for line in recipe.splitlines())
    monkeypatch.chdir(tmp_path)
    example = ROOT / "docs" / "examples" / "segmenter"
    monkeypatch.syspath_prepend(str(example))
    exec(compile(code, "write_shapes.py", "exec"), {})  # noqa: S102  # our own document's
    (cell,) = cells_of(tmp_path, (tmp_path / "shapes.csv").read_text())
    assert sum(each.count for each in cell.listed_shapes) == 64 / 8


def test_as_many_draws_as_counts_are_a_whole_epoch() -> None:
    counts = {(4, 3, 8, 8): 5, (2, 3, 8, 8): 3, (1, 3, 8, 8): 2}
    shapes = tuple(ListedShape(shape=list(shape), count=count) for shape, count in counts.items())
    for seed in range(5):
        assert Counter(Listed(shapes=shapes, draws=10, seed=seed).period(())) == counts
    assert len(Listed(shapes=shapes, draws=9, seed=0).period(())) == 9


def test_a_colon_in_a_file_makes_no_regime_of_the_users_own(tmp_path: Path) -> None:
    (cell,) = cells_of(tmp_path, TABLE)
    assert replace(cell, regime="listed at:9.csv").own_regime is None
    assert replace(cell, regime="my.py:Rule", listed_shapes=()).own_regime == "my.py:Rule"


@pytest.mark.parametrize(("rows", "found"), [(0, 0), (1, None), (3, None), (4, 4)])
def test_a_file_has_a_header_and_so_many_shapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, found: int | None
) -> None:
    monkeypatch.setattr("cudnn_sweep.workloads.cells.listed_shapes.MOST_ROWS", 3)
    (tmp_path / "shapes.csv").write_text("# shapes\nbatch\n" + "2\n" * rows)
    if found is None:
        assert len(read_rows(tmp_path, "shapes.csv")) == rows
        return
    with pytest.raises(ValueError, match=f"found {found} shapes below the header; allowed: 1 to 3"):
        read_rows(tmp_path, "shapes.csv")
