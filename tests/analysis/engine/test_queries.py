import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from cudnn_sweep.analysis.engine.database import Database, export, open_database
from cudnn_sweep.analysis.engine.dictionary import meaning
from cudnn_sweep.analysis.engine.prelude import prelude_sql
from cudnn_sweep.analysis.engine.queries import load_query, own_queries, parse_query, query_names
from cudnn_sweep.analysis.errors import QueryError
from cudnn_sweep.analysis.results.marked import COLUMN
from cudnn_sweep.analysis.results.min_effect import MIN_EFFECT
from cudnn_sweep.analysis.store.store import Store, open_store
from tests.analysis.conftest import make_pair

# `connection.sql` would plan each of them twice.
pytestmark = pytest.mark.filterwarnings("ignore:Arrow output on a DB-API result")


# Of many macros, of engines, of races, and two of no macro: the others are asked in the same way.
PLAIN = ("advice", "bans", "race", "sweeps", "where_time_goes")


@pytest.fixture(scope="module")
def ask_empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], pa.Table]]:
    """Our answer over an empty store; several tests look at one."""
    with open_database(open_store(str(tmp_path_factory.mktemp("empty")))) as database:
        yield cache(lambda name: database.query(load_query(name).sql, load_query(name).values({})))


@pytest.fixture(scope="module")
def colleague(answering_store: Store) -> Iterator[duckdb.DuckDBPyConnection]:
    """Plain DuckDB after the prelude. Its `records` are a copy, as to plan every question over the prelude's view
    takes seven times as long, and fail where samples are read of a trial in no turns and no open loop.
    """
    with duckdb.connect() as connection:
        connection.execute("set TimeZone = 'UTC'")
        connection.execute(prelude_sql(answering_store))
        connection.execute("create table kept as from records")
        columns = ", ".join(
            f"if(in_turns or loop_kind = 'open', {name}, error('{name} is read')) as {name}"
            for name in ("steady_wall_samples_ms", "steady_device_samples_ms")
        )
        connection.execute(
            f"create or replace view records as select * replace ({columns}) from kept"
        )
        yield connection


@pytest.fixture(scope="module")
def exported(
    answering_store: Store, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Plain DuckDB in a file of ours."""
    file = tmp_path_factory.mktemp("exported") / "store.duckdb"
    assert export(answering_store, file) == ()
    with duckdb.connect(file, read_only=True) as connection:
        connection.execute("set TimeZone = 'UTC'")
        yield connection


@pytest.fixture(scope="module")
def ours(answering_store: Store) -> Iterator[Database]:
    with open_database(answering_store) as database:
        yield database


def executed(connection: duckdb.DuckDBPyConnection, name: str) -> pa.Table:
    """By the two statements that the program prints."""
    prepare, execute = load_query(name).prepared({}).rstrip().rsplit("\n", 1)
    connection.execute(prepare)
    return connection.execute(execute).to_arrow_table()


@pytest.mark.slow
@pytest.mark.parametrize("name", query_names())
def test_a_question_reads_few_samples(colleague: duckdb.DuckDBPyConnection, name: str) -> None:
    """Samples are most of a store: to read those of all trials takes a third more of the time."""
    assert executed(colleague, name).num_rows > 0 or name == "bans", "no store has engines here"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] * (name not in PLAIN)) for name in query_names()],
)
def test_plain_duckdb_gives_the_same_answer(
    colleague: duckdb.DuckDBPyConnection,
    exported: duckdb.DuckDBPyConnection,
    ours: Database,
    name: str,
) -> None:
    question = load_query(name)
    answer = ours.query(question.sql, question.values({}))
    called: pa.Table = exported.execute(f"from {name}()").to_arrow_table()
    for plain in (executed(colleague, name), called):
        assert plain.schema.types == answer.schema.types and alike(plain, answer)


def alike(one: pa.Table, other: pa.Table) -> bool:
    return one.schema.names == other.schema.names and all(
        value
        == (pytest.approx(other_row[column]) if isinstance(value, float) else other_row[column])
        for row, other_row in zip(one.to_pylist(), other.to_pylist(), strict=True)
        for column, value in row.items()
    )


@pytest.mark.slow
def test_samples_of_other_trials_would_be_noticed(colleague: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.Error, match="steady_wall_samples_ms is read"):
        colleague.execute("select steady_wall_samples_ms from records").to_arrow_table()


@pytest.mark.parametrize("name", query_names())
def test_a_question_runs_on_an_empty_store_and_its_columns_are_explained(
    ask_empty: Callable[[str], pa.Table], name: str
) -> None:
    question, ours = load_query(name), ask_empty(name)
    columns = ours.schema.names
    assert ours.num_rows == 0
    assert [column for column in columns if not meaning(question, column)] == []
    assert set(question.columns) <= set(columns), "explained, but not answered"
    marked = [match for text in question.terminal if (match := COLUMN.fullmatch(text))]
    assert len(marked) == len(question.terminal)
    assert min(6, len(columns)) <= len(marked or columns) <= 10, "what a terminal shows"
    names = {each for match in marked for each in match.groups() if each}
    assert names <= {*columns, "cell", "config"}
    assert "cell" not in names or "cell_id" in columns


@pytest.mark.parametrize("name", query_names())
def test_a_questions_head_declares_what_its_sql_uses(name: str) -> None:
    asked = load_query(name)
    body = "\n".join(line for line in asked.sql.splitlines() if not line.startswith("--"))
    assert asked.question.endswith("?")
    assert set(re.findall(r"\$(\w+)", body)) == {each.name for each in asked.parameters}
    assert all(each.meaning for each in asked.parameters)


def test_every_question_takes_the_same_difference_as_the_smallest_that_counts() -> None:
    defaults = {
        name: parameter.default
        for name in query_names()
        for parameter in load_query(name).parameters
        if parameter.name == "min_effect"
    }
    assert "helps_or_hurts" in defaults
    assert set(defaults.values()) == {MIN_EFFECT}, defaults


@pytest.mark.slow
def test_sql_goes_on_from_a_question_asked_with_parameters(answering_store: Store) -> None:
    sql = "select count(*) as n from helps_or_hurts({}) where wall_verdict = 'hurts'"
    with open_database(answering_store) as database:
        asked = ("", "min_effect := 0.5", "of_sweep_id := 'night-2'")
        counts = [database.query(sql.format(each))["n"][0].as_py() for each in asked]
    assert counts[0] > counts[1] == 0
    assert counts[2] < counts[0]


def test_a_text_default_may_hold_a_colon_and_prints_as_sql() -> None:
    asked = parse_query("mine", "-- Why?\n-- $x TEXT = 'a: b': anything\nselect $x;\n")
    assert asked.prepared({}).endswith("select $x;\nEXECUTE q(x := 'a: b');\n")
    assert asked.prepared({"x": "it's"}).endswith("EXECUTE q(x := 'it''s');\n")


def test_a_line_of_a_head_may_explain_several_columns() -> None:
    head = "-- Why?\n-- A row a cell: all of it.\n-- low, high: ends of\n--     its interval\n"
    asked = parse_query("mine", f"{head}select 1 as low, 2 as high;\n")
    assert asked.columns == dict.fromkeys(("low", "high"), "ends of its interval")
    assert asked.notes == "A row a cell: all of it."


def test_a_column_may_be_explained_where_the_sql_has_it() -> None:
    sql = """-- Why?
select
    max(a.high - a.low) as width, -- how far its ends are apart
    a.low, -- its lower end
    case when a.high > 0 then null -- unknown
    end as share, -- noqa: RF04
    high -- its upper end
from ends as a -- all of them
"""
    known = {"width": "how far its ends are apart", "low": "its lower end", "high": "its upper end"}
    assert parse_query("mine", sql).columns == known
    assert parse_query("mine", sql.replace("Why?", "Why?\n-- low: the least")).columns["low"] == (
        "the least"
    )


def test_a_parameter_that_questions_share_is_declared_by_its_use() -> None:
    asked = parse_query(
        "mine", "-- Why?\n-- $x TEXT = 'a': mine\nselect $x, $min_effect, '$field'\n"
    )
    assert [each.name for each in asked.parameters] == ["x", "min_effect"]
    assert asked.values({})["min_effect"] == MIN_EFFECT
    own = parse_query("mine", "-- Why?\n-- $min_effect DOUBLE = 0.5: mine\nselect $min_effect\n")
    assert own.values({}) == {"min_effect": 0.5}


def test_a_users_own_file_is_found_by_name_and_the_nearer_one_counts(tmp_path: Path) -> None:
    (tmp_path / "queries").mkdir()
    (tmp_path / "my_slowest.sql").write_text("-- Which is slowest?\nselect 1\n")
    (tmp_path / "queries" / "my_slowest.sql").write_text("select 2\n")
    (tmp_path / "queries" / "fastest.sql").write_text("select 3\n")
    (tmp_path / "sweeps.sql").write_text("select 4\n")
    own = own_queries([tmp_path, tmp_path / "queries", tmp_path / "none"])
    assert list(own) == ["my_slowest", "fastest"], "sweeps is a question of ours"
    assert load_query("my_slowest", own).question == "Which is slowest?"
    assert load_query("fastest", own).sql == "select 3\n"
    names = ", ".join([*query_names(), "my_slowest", "fastest"])
    with pytest.raises(QueryError, match=f"the questions: {names}$"):
        load_query("nope", own)


def test_a_users_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "odd.sql"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(QueryError, match="cannot read .*odd.sql"):
        load_query("odd", {"odd": file})


@pytest.mark.slow
def test_the_prelude_names_files_where_a_torn_one_is_left_out(filled_store: Store) -> None:
    torn, *whole = filled_store.files()
    filled_store.folder.write(torn, pa.py_buffer(b"PAR1"))
    with duckdb.connect() as connection:
        connection.execute(prelude_sql(filled_store))
        ((found,),) = connection.execute("select count(*) from records").fetchall()
    assert found == 9 + len(whole) - 1


@pytest.mark.slow
def test_the_prelude_takes_a_folder_whose_name_looks_like_a_pattern(
    kept_store: Store, tmp_path: Path
) -> None:
    odd = open_store(str(tmp_path / "it's [a] *?"))
    for path in kept_store.files():
        odd.folder.write(path, kept_store.folder.read(path))
    with duckdb.connect() as connection:
        connection.execute(prelude_sql(odd))
        assert executed(connection, "sweeps").num_rows == 2


@pytest.fixture(scope="module")
def edited_code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Of six blocks: those with an odd number ran another version of the code."""
    store = open_store(str(tmp_path_factory.mktemp("edited")))
    for block in range(6):
        store.write(*make_pair(block, 10.0, 12.0, workload_hash=f"code-{block % 2}"))
    with open_database(store) as database:
        yield database


@pytest.mark.slow
@pytest.mark.parametrize("name", query_names())
def test_a_question_tells_trials_of_edited_code_apart(name: str, edited_code: Database) -> None:
    """Where it has a row a software it has one a version of the code too, but for nights."""
    question = load_query(name)
    rows = edited_code.query(question.sql, question.values({})).to_pylist()
    if rows and {"cell_id", "software_hash"} <= rows[0].keys() and not name.startswith("night"):
        assert {row["workload_hash"] for row in rows} == {"code-0", "code-1"}


@pytest.mark.slow
def test_each_step_of_a_verdict_answers_alone(kept_store: Store) -> None:
    pairs = "with pairs as (from block_pairs('benchmark', 'false', 'true', null))"
    with open_database(kept_store) as database:

        def rows(sql: str) -> list[dict[str, Any]]:
            return [*database.query(sql).to_pylist()]

        trials = rows("from contrast_trials('benchmark', 'false', 'true', null)")
        blocks = rows("from contrast_blocks('benchmark', 'false', 'true', null)")
        timed = rows("from timed_blocks('benchmark', 'false', 'true', null)")
        logs = rows(f"{pairs} from logs_by_clock('pairs') where clock = 'wall'")
        cells = rows(f"{pairs} from cells_of('pairs')")
    sides = [row[f"{side}_trial_id"] for row in blocks for side in ("baseline", "candidate")]
    assert sorted(filter(None, sides)) == sorted(row["trial_id"] for row in trials)
    assert Counter(row["pairing"] for row in timed) == {"paired": 7, "unpaired": 1}
    assert Counter(row["cell"] for row in logs) == {row["cell"]: row["blocks"] for row in cells}
