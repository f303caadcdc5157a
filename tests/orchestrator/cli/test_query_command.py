import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from cudnn_sweep.analysis.answering.marked import marked_columns
from cudnn_sweep.analysis.asking import database
from cudnn_sweep.analysis.asking.database import Database, open_database
from cudnn_sweep.analysis.asking.queries import load_query
from cudnn_sweep.analysis.storing.reference import REFERENCE
from cudnn_sweep.analysis.storing.store import open_store
from cudnn_sweep.orchestrator.cli import app
from cudnn_sweep.orchestrator.cli.drawing import draw, draw_marked

ROOT = Path(__file__).parents[3]
ONE_RECORD = ROOT / "tests" / "analysis" / "data" / "schema-1.parquet"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A results folder with one record in it."""
    folder = tmp_path / "results"
    (folder / "sweep=night-1").mkdir(parents=True)
    shutil.copy(ONE_RECORD, folder / "sweep=night-1" / "part-1.parquet")
    return folder


def test_sql_text_is_answered(results: Path) -> None:
    found = _query("select workload, steady_wall_ms from records", results, "--format", "json")
    assert json.loads(found.stdout) == [{"workload": "conv2d", "steady_wall_ms": 10.0}]


def test_a_named_question_is_a_table_in_sql() -> None:
    macro = "helps_or_hurts(min_effect := 0.5, of_sweep_id := 'claims')"
    sql = f"select cell_id, wall_verdict from {macro} order by all"
    found = json.loads(_query(sql, REFERENCE, "--format", "json").stdout)
    options = ["--min-effect", "0.5", "--sweep-id", "claims", "--format", "json"]
    named = json.loads(_query("helps_or_hurts", REFERENCE, *options).stdout)
    rows = sorted((row["cell_id"], row["wall_verdict"]) for row in named)
    assert rows and [tuple(row.values()) for row in found] == rows


def test_an_empty_store_is_answered_and_said_so(tmp_path: Path) -> None:
    found = _query("helps_or_hurts", tmp_path, "--format", "json")
    assert (found.exit_code, json.loads(found.stdout)) == (0, [])
    assert "no rows: no results are stored in" in found.stderr


@pytest.mark.parametrize(
    ("question", "options", "why"),
    [
        ("failures", (), "every recorded trial is ok"),
        ("failures", ("--sweep-id", "gone"), "no sweep gone is stored in"),
        ("helps_or_hurts", (), "no cell has two configs"),
    ],
)
def test_no_rows_say_why(results: Path, question: str, options: tuple[str, ...], why: str) -> None:
    found = _query(question, results, *options)
    assert (found.exit_code, found.stdout) == (0, "")
    assert f"note: no rows: {why}" in found.stderr


def test_several_results_are_read_together(results: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(results, other)
    count = "select count(*) as n from records"
    both = ("--results", str(other), "--format", "csv")
    assert _query(count, results, *both).stdout == "n\n1\n", "a copied row counts once"
    prelude = _query(count, results, "--results", str(other), "--prelude").stdout
    assert str(results) in prelude and str(other) in prelude


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
    (results / "sweep=night-1" / "part-2.parquet").write_bytes(b"PAR1")
    exported = _query(f"--export={file}", results)
    assert (exported.exit_code, "left out" in exported.stderr) == (0, True)
    before = file.read_bytes()
    refused = _query(f"--export={file}", results)
    assert (refused.exit_code, f"{file} exists: remove it" in refused.stderr) == (2, True)
    assert [each.read_bytes() for each in file.parent.iterdir()] == [before]


@pytest.mark.parametrize("name", ["helps_or_hurts", "cold_cost", "choice_stability"])
def test_a_question_over_stored_rows_has_a_line_a_row_and_names_that_differ(
    stored_rows: Database, name: str
) -> None:
    asked = load_query(name)
    answer = stored_rows.query(asked.sql, asked.values({}))
    columns = marked_columns(stored_rows, asked, answer)
    assert answer.num_rows
    for width in (80, 100, 120):
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


def test_the_prelude_ends_with_the_question_as_asked(results: Path) -> None:
    found = _query("failures", results, "--prelude", "--sweep-id", "night-1")
    assert found.stdout.startswith("create or replace view records")
    assert found.stdout.endswith("EXECUTE q(sweep_id := 'night-1');\n")


def test_a_users_own_file_is_listed_and_asked_by_its_name(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queries").mkdir()
    text = "-- Which is slowest?\n-- $least_ms DOUBLE = 0: anything\nselect $least_ms as ms\n"
    file = tmp_path / "queries" / "my_slowest.sql"
    file.write_text(text)
    for name in ("my_slowest", str(file)):
        found = _query(name, results, "--least-ms", "2.5", "--format", "csv")
        assert found.stdout == "ms\n2.5\n"
    listed = CliRunner().invoke(app, ["query", "--list"])
    assert "my_slowest (queries/my_slowest.sql): Which is slowest?" in listed.stdout
    assert "    --least-ms DOUBLE (default 0.0): anything" in listed.stdout


def test_damaged_files_are_named(results: Path) -> None:
    torn = results / "sweep=night-1" / "part-2.parquet"
    torn.write_bytes(b"PAR1")
    found = _query("select count(*) as n from records", results, "--format", "csv")
    assert found.stdout == "n\n1\n"
    assert f"left out {torn}" in found.stderr
    for words in (["report", "--format", "markdown"], ["compare", "night-1", "gone"]):
        named = CliRunner().invoke(app, [*words, "--results", str(results)])
        assert f"left out {torn}" in named.stderr, words


def test_rows_wider_than_the_terminal_become_blocks() -> None:
    answer = pq.read_table(ONE_RECORD, columns=["workload", "message", "steady_wall_ms"])
    assert draw(answer, width=20) == "workload        conv2d\nsteady_wall_ms  10.0\n"
    assert len(draw(answer, width=None).splitlines()[1].split()) == 3


def _query(question: str, results: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["query", question, "--results", str(results), *options])


def test_a_column_that_only_tables_have_is_explained(results: Path) -> None:
    told = _query("select cell from records", results)
    assert (told.exit_code, "`cell` is made of workload, problem, " in told.stderr) == (2, True)


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
    found = CliRunner().invoke(app, ["query", "select count(*) from records", "--format", "csv"])
    assert found.stdout.splitlines()[1] == "1"


def test_installed_results_answer_alone_or_beside_one_s_own(results: Path, tmp_path: Path) -> None:
    asked = ["query", "select count(*) as trials, min(gpu) as gpu from records", "--json"]
    (row,) = json.loads(CliRunner().invoke(app, [*asked, "--reference"]).stdout)
    assert row["trials"] > 300
    assert row["gpu"] == "NVIDIA H200"
    empty = tmp_path / "empty"
    empty.mkdir()
    folders = ["--results", str(results), "--results", str(empty)]
    found = CliRunner().invoke(app, [*asked, "--reference", *folders])
    (both,) = json.loads(found.stdout)
    assert both["trials"] == row["trials"] + 1
    assert found.stderr == f"warning: no results are stored in {empty}\n"
