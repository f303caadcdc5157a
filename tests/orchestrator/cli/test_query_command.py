import json
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import Result

from cudnn_sweep.analysis.answers.answer import formats
from cudnn_sweep.analysis.engine import database
from cudnn_sweep.analysis.engine.database import Database, open_database
from cudnn_sweep.analysis.engine.queries import load_query
from cudnn_sweep.analysis.results.cell_names import CELLS, names_apart
from cudnn_sweep.analysis.results.marked import marked_columns
from cudnn_sweep.analysis.store.location import REFERENCE
from cudnn_sweep.analysis.store.store import Store, open_store
from cudnn_sweep.orchestrator.terminal.drawing import draw_marked
from tests.analysis.conftest import make_record
from tests.orchestrator.typed import invoke, python

ROOT = Path(__file__).parents[3]
ONE_RECORD = ROOT / "tests" / "analysis" / "data" / "schema-1.parquet"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A results folder with one record in it."""
    folder = tmp_path / "results"
    (folder / "sweep=night-1").mkdir(parents=True)
    shutil.copy(ONE_RECORD, folder / "sweep=night-1" / "part-1.parquet")
    return folder


@pytest.mark.parametrize("ends", [False, True])
def test_a_question_to_a_running_sweep_says_how_far_it_is(tmp_path: Path, ends: bool) -> None:
    now = datetime.now(UTC)
    times = {"started_at": now - timedelta(seconds=9), "ended_at": now}
    record = make_record(sweep_id="now", plan_trials=82, ends_launch=ends, **times)
    open_store(str(tmp_path)).write(record)
    noted = invoke(["query", "sweeps", "--results", str(tmp_path)]).stderr
    assert ("now has not ended: 1 of 82 trials" in noted) is not ends


def test_an_export_is_whole_or_not_there_and_replaces_nothing(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "out" / "store.duckdb"
    refused = _query("sweeps", results, "--export", str(file))
    assert (refused.exit_code, "leave out sweeps" in refused.stderr) == (2, True)
    refused = _query(f"--export={file}", results)
    assert (refused.exit_code, f"cannot write {file}: No such" in refused.stderr) == (2, True)
    file.parent.mkdir()
    with monkeypatch.context() as broken:
        broken.setattr(database, "REPEATED_KEYS", "select error('the disk is full')")
        failed = _query(f"--export={file}", results)
    assert (failed.exit_code, "the disk is full" in failed.stderr) == (2, True)
    assert not list(file.parent.iterdir())
    (file.parent / f".{file.name}.12345678.held").mkdir()  # of a killed export
    (results / "sweep=night-1" / "part-2.parquet").write_bytes(b"PAR1")
    exported = _query(f"--export={file}", results)
    assert (exported.exit_code, "left out" in exported.stderr) == (0, True)
    before = file.read_bytes()
    refused = _query(f"--export={file}", results)
    assert (refused.exit_code, f"{file} exists: remove it" in refused.stderr) == (2, True)
    assert [each.read_bytes() for each in file.parent.iterdir()] == [before]


@pytest.mark.long
def test_a_field_alone_asks_about_each_of_its_stored_contrasts(tmp_path: Path) -> None:
    store, layouts = open_store(str(tmp_path)), (None, "weights", "channels_last")
    for block, layout in product(range(3), layouts):
        at = {"block": block, "replicate": block, "trial_id": f"{block}-{layout}"}
        store.write(make_record(config_layout=layout, **at))
    told = _query("helps_or_hurts", tmp_path, "--field", "layout")
    assert "layout: null → weights" in told.stdout and "layout: null → channels_last" in told.stdout
    one = _query(
        "helps_or_hurts", tmp_path, "--field=layout", "--baseline=null", "--candidate=weights"
    )
    assert (one.stdout.count("fixed bf16"), told.stdout.count("fixed bf16")) == (1, 3)
    none = _query("helps_or_hurts", tmp_path, "--field", "precision")
    assert "no rows" in none.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.long) for name in ("helps_or_hurts", "break_even")),
        "choice_stability",
    ],
)
def test_a_question_over_stored_rows_has_a_line_a_row_and_names_that_differ(
    stored_rows: Database, name: str
) -> None:
    asked = load_query(name)
    every = stored_rows.query(asked.sql, asked.values({}))
    of_one_gpu = every.filter(pc.field("gpu") == "NVIDIA H200")
    for width, answer in ((80, of_one_gpu), (96, every), (100, every), (120, every)):
        assert answer.num_rows
        columns = marked_columns(stored_rows, asked, answer)
        lines = draw_marked(columns, width).splitlines()
        heads = len(lines) - answer.num_rows
        assert 1 <= heads <= max(len(column.name.split("_")) for column in columns)
        assert max(map(len, lines)) <= width
        shown = [column for column in columns if column.name.split("_")[-1] in lines[heads - 1]]
        assert len(shown) >= min(len(columns), 3)
        for line in lines[heads:]:
            assert not re.search(r"(^|  )…", line), "nothing of a column is left"
        if name == "helps_or_hurts":
            assert len({line.split("  ")[0] for line in lines[heads:]}) == answer.num_rows


@pytest.fixture(scope="module")
def stored_rows() -> Iterator[Database]:
    with open_database(open_store(str(REFERENCE))) as database:
        yield database


def test_the_answer_goes_to_a_file(results: Path, tmp_path: Path) -> None:
    output = tmp_path / "answer.parquet"
    _query("select 1 as n", results, "--format", "parquet", "--output", str(output))
    assert pq.read_table(output).to_pydict() == {"n": [1]}


def test_the_prelude_reads_all_results_and_ends_with_the_question_as_asked(
    results: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(results, tmp_path / "other")
    asked = ("--results", str(other), "--prelude", "--sweep-id", "night-1")
    found = _query("failures", results, *asked)
    assert "\ncreate or replace view records" in found.stdout
    assert str(results) in found.stdout and str(other) in found.stdout
    assert found.stdout.endswith("EXECUTE q(sweep_id := 'night-1');\n")


def _query(question: str, results: Path, *options: str) -> Result:
    return invoke(["query", question, "--results", str(results), *options])


def test_sql_longer_than_a_file_name_may_be_is_answered(results: Path) -> None:
    columns = ", ".join(f"1 as column_{number}" for number in range(100))
    assert (
        len(json.loads(_query(f"select {columns}", results, "--format", "json").stdout)[0]) == 100
    )


def test_results_are_those_of_the_launch_file(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    results.rename(tmp_path / "elsewhere")
    (tmp_path / "cluster.yaml").write_text("metadata: {sweep: {results: elsewhere}}")
    found = invoke(["query", "select count(*) from records", "--format", "csv"])
    assert found.stdout.splitlines()[1] == "1"


NETWORK = "cudnn_sweep.workloads.nets.unet:UNet"


@pytest.fixture
def network(store: Store) -> Path:
    """The results of a network of ours and of another workload, with two versions of torch."""
    for number, (workload, torch) in enumerate(product((NETWORK, "noop"), ("2.11.0", "2.12.0"))):
        id_ = str(number)
        changes = {"workload": workload, "cell_id": workload, "problem": None, "torch": torch}
        store.write(make_record(trial_id=id_, attempt_id=id_, env_hash=torch, **changes))
    return Path(store.location)


def test_a_workload_is_queried_by_the_name_that_answers_show(network: Path) -> None:
    shown = json.loads(_query("select distinct workload from records", network, "--json").stdout)
    (name,) = (row["workload"] for row in shown if row["workload"] != "noop")
    with open_database(open_store(str(network))) as stored:
        names = names_apart(stored.query(CELLS).to_pylist())
    assert any(text.split()[0] == name for text in names.values())
    sql = f"select count(*) as n from records where workload = '{name}'"
    assert json.loads(_query(sql, network, "--json").stdout) == [{"n": 2}]


@pytest.mark.slow
def test_a_comparison_is_written_in_each_format_with_its_exit_code(
    network: Path, tmp_path: Path
) -> None:
    files = {suffix: tmp_path / f"odd `|<b>{suffix}" for suffix in formats()}
    written = [word for file in files.values() for word in ("--write", str(file))]
    sides = ["compare", "2.11.0", "2.12.0", "--results", str(network)]
    ended = invoke([*sides, "--json", "--fail-on", "inconclusive", *written])
    assert ended.exit_code == 1, ended.stderr
    answer = json.loads(files[".json"].read_text())
    assert answer["exit_code"] == 1
    assert [row["cell_id"] for row in answer["rows"]] == [
        row["cell_id"] for row in json.loads(ended.stdout)
    ]
    assert answer["headline"] == "2 cells and configs: inconclusive 2."
    assert all("inconclusive 2" in files[end].read_text() for end in (".txt", ".md", ".html"))
    assert ElementTree.parse(files[".xml"]).getroot().get("failures") == "1"
    line = 'cudnn_sweep_compare_exit_code{a="torch=2.11.0",b="torch=2.12.0"} 1.0'
    assert line in files[".prom"].read_text().splitlines()


def test_a_comparison_without_an_answer_leaves_why_in_its_file(
    network: Path, tmp_path: Path
) -> None:
    file = tmp_path / "answer.json"
    sides = ["compare", "2.11.0", "--results", str(network), "--write", str(file)]
    assert invoke([*sides, "9.9.9"]).exit_code == 2
    found = json.loads(file.read_text())
    assert found["exit_code"] == 2
    assert found["headline"].startswith("No answer: 9.9.9: no results match")
    same = ["--where", "problem=nowhere"]
    assert invoke([*sides, "2.12.0", *same]).exit_code == json.loads(file.read_text())["exit_code"]


@pytest.mark.slow
def test_a_comparison_whose_file_cannot_be_written_is_printed(
    network: Path, tmp_path: Path
) -> None:
    (tmp_path / "full.md").symlink_to("/dev/full")
    sides = ["compare", "2.11.0", "2.12.0", "--results", str(network)]
    files = ["--write", str(tmp_path / "full.md"), "--write", str(tmp_path / "kept.md")]
    full = invoke([*sides, *files])
    assert (full.exit_code, "2 cells and configs" in full.stdout) == (6, True)
    assert "2 cells and configs" in (tmp_path / "kept.md").read_text()
    missing = invoke([*sides, "--write", str(tmp_path / "gone" / "a.md")])
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert invoke([*sides, "--write", "a.pdf"]).exit_code == 2


@pytest.mark.slow
def test_compare_takes_the_name_that_answers_show(network: Path) -> None:
    sides = ["compare", "2.11.0", "2.12.0", "--results", str(network)]
    compared = invoke([*sides, "--where", "workload=nets.unet:UNet"])
    assert compared.exit_code == 0, compared.stderr


@pytest.mark.slow
def test_a_question_is_answered_without_pandas() -> None:
    words = ("-X", "importtime", "-m", "cudnn_sweep.orchestrator.cli", "query", "sweeps")
    told = python(*words, "--reference")
    assert told.returncode == 0, told.stderr
    assert "pyarrow.dataset\n" in told.stderr and "pandas.core" not in told.stderr
