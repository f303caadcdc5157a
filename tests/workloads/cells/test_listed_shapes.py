"""Shapes that a user lists in a file."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from cudnn_sweep.cluster.strict_yaml import read_strict
from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.expand import expand_cells
from cudnn_sweep.workloads.cells.listed_shapes import Listed, ListedSpec, read_rows
from cudnn_sweep.workloads.cells.suite import SuiteSpec
from cudnn_sweep.workloads.errors import WorkloadError
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


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("batch\n7\n", [{"batch": 7, "count": 1}]),
        ("# of March\n\nbatch , count\n 7 , 2\n", [{"batch": 7, "count": 2}]),
        ("count,length\n3,2147483647\n", [{"count": 3, "length": 2**31 - 1}]),
        ("width,height\n1,2\n", [{"width": 1, "height": 2, "count": 1}]),
        (
            "batch,depth,height,width\n1,2,3,4\n",
            [{"batch": 1, "depth": 2, "height": 3, "width": 4, "count": 1}],
        ),
        ("count\n5\n", "shapes.csv:1: found the columns count; allowed: batch, or"),
        ("batch,batch\n1,1\n", "found the columns batch,batch;"),
        ("height\n1\n", "found the columns height;"),
        ("length,width\n1,1\n", "found the columns length,width;"),
        ("batch,channels\n1,1\n", "found the columns batch,channels;"),
        ("# one\nbatch\n1,2\n", "shapes.csv:3: found 2 values for 1 columns: batch"),
        ("batch,length\n1\n", "shapes.csv:2: found 1 values for 2 columns: batch,length"),
        ("batch\n0\n", "batch: found '0', wanted a whole number of 1 or more"),
        ("batch\n2147483648\n", "found '2147483648', wanted a whole number"),
        ("batch\n1.5\n", "found '1.5', wanted"),
        ("batch\n-1\n", "found '-1', wanted"),
        ("batch\n\u0663\n", "found '\u0663', wanted"),
        (f"batch\n{'9' * 50}\n", f"found '{'9' * 40}', wanted"),
        ("batch\n", "found 0 shapes below the header; allowed: 1 to 10,000"),
        ("# nothing\n", "found 0 shapes below the header"),
    ],
)
def test_a_table_has_known_columns_and_a_whole_number_in_each(
    tmp_path: Path, table: str, rows: list[dict[str, int]] | str
) -> None:
    (tmp_path / "shapes.csv").write_text(table, encoding="utf-8")
    if isinstance(rows, list):
        assert list(read_rows(tmp_path, "shapes.csv")) == rows
        return
    with pytest.raises(ValueError, match=re.escape(rows)):
        read_rows(tmp_path, "shapes.csv")


def test_a_file_that_is_missing_a_folder_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="found no file .*none.csv"):
        read_rows(tmp_path, "none.csv")
    with pytest.raises(ValueError, match="cannot read .*: Is a directory"):
        read_rows(tmp_path.parent, tmp_path.name)
    (tmp_path / "a.csv").write_bytes(b"batch\n\xff\n")
    with pytest.raises(ValueError, match="the file is not a UTF-8 text"):
        read_rows(tmp_path, "a.csv")


def listed(**keys: object) -> ListedSpec:
    rows = keys.pop("rows", [{"height": 4, "width": 6, "count": 2}])
    return ListedSpec.model_validate({"file": "a.csv", "rows": rows, **keys})


def test_a_files_shapes_replace_the_sizes_that_it_names() -> None:
    spec = listed(
        rows=[{"width": 6, "height": 4, "count": 2}, {"height": 4, "width": 6, "count": 3}]
    )
    assert (spec.name, spec.varies, spec.draws, spec.seed) == ("listed a.csv", {"space"}, 100, 0)
    rule = spec.rule((2, 3, 8, 9))
    assert [(each.shape, each.count) for each in rule.shapes] == [([2, 3, 4, 6], 5)]
    assert rule.parameters() == {"draws": 100.0, "seed": 0.0}
    assert rule.period(()) == ((2, 3, 4, 6),) * 5
    both = listed(rows=[{"batch": 7, "length": 5, "count": 1}])
    assert both.varies == {"batch", "space"}
    assert both.rule((2, 16)).shapes[0].shape == [7, 5]
    assert listed(rows=[{"batch": 7, "count": 1}]).varies == {"batch"}
    with pytest.raises(
        WorkloadError,
        match="has the sizes width,height, but the input 2x3x4x5x6 has the sizes depth,height",
    ):
        spec.rule((2, 3, 4, 5, 6))


@pytest.mark.parametrize(
    ("keys", "valid"),
    [
        ({"draws": 1}, True),
        ({"draws": 10_000}, True),
        ({"draws": 0}, False),
        ({"draws": 10_001}, False),
        ({"file": "a"}, True),
        ({"file": ""}, False),
        ({"file": 5}, False),
        ({"seed": -1}, True),
    ],
)
def test_draws_are_one_to_ten_thousand(keys: dict[str, object], valid: bool) -> None:
    if valid:
        assert listed(**keys)
        return
    with pytest.raises(ValidationError):
        listed(**keys)


def test_a_suites_file_may_not_bring_its_rows() -> None:
    given = {"file": "a.csv", "rows": []}
    with pytest.raises(ValidationError, match="found `rows`, allowed: file, draws, seed"):
        ListedSpec.model_validate(given, context={"folder": "."})


@pytest.mark.parametrize("given", ["shapes.csv", 5, None, ["a.csv"], {"file": 5}, {"draws": 5}])
def test_what_names_no_file_is_refused_by_the_schema(given: object) -> None:
    with pytest.raises(ValidationError):
        ListedSpec.model_validate(given)
