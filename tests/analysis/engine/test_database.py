import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from time import process_time

import pytest
from ruamel.yaml import YAML
from scipy import stats

from cudnn_sweep.analysis.engine import database as asking
from cudnn_sweep.analysis.engine.database import LOCKED, Database, open_database
from cudnn_sweep.analysis.errors import QueryError
from cudnn_sweep.analysis.store.schema import to_table
from cudnn_sweep.analysis.store.store import Store, open_store
from tests.analysis.conftest import make_pair

NONE = -1  # rows: then no DuckDB is kept for the next store
REFUSED = YAML(typ="safe", pure=True).load((Path(__file__).parent / "refused.yaml").read_text())


@pytest.fixture(scope="module")
def attacked(kept_store: Store) -> Iterator[Database]:
    with open_database(kept_store) as database:
        yield database


@pytest.mark.parametrize("sql", REFUSED["no select"])
def test_only_one_select_is_allowed(attacked: Database, kept_store: Store, sql: str) -> None:
    _is_refused(attacked, kept_store, sql, "found .*; allowed is one SELECT")


@pytest.mark.parametrize("sql", REFUSED["reaches out"])
def test_a_select_reaches_no_file_and_changes_none(
    attacked: Database, kept_store: Store, sql: str
) -> None:
    _is_refused(attacked, kept_store, sql, "the query failed")


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("select 1; copy (select 1) to 'x'", "found SELECT, COPY;"),
        ("pivot records on benchmark using count(*)", "a PIVOT has to list its columns"),
    ],
)
def test_a_refusal_says_which_statements_were_found(
    attacked: Database, sql: str, found: str
) -> None:
    with pytest.raises(QueryError, match=found):
        attacked.query(sql)


@pytest.mark.parametrize(("held_rows", "is_held"), [(15, True), (14, False)])
def test_rows_that_are_held_are_read_once(
    kept_store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    held_rows: int,
    is_held: bool,
) -> None:
    monkeypatch.setattr(asking, "FEW_ROWS", NONE)
    monkeypatch.setattr(asking, "HELD_ROWS", held_rows)
    shutil.copytree(kept_store.location, tmp_path / "copied")
    with open_database(open_store(str(tmp_path / "copied"))) as database:
        count = database.query("select count(steady_wall_ms) as n from records").to_pylist()
        database.hold_rows()
        for part in (tmp_path / "copied").rglob("*.parquet"):
            part.unlink()
        again = database.query("select count(steady_wall_ms) as n from records").to_pylist()
        assert (again == count) == is_held


@pytest.mark.parametrize(
    "sql",
    [
        "from records",
        "describe records",
        "summarize records",
        "show tables",
        "values (1)",
        "pivot records on benchmark in (true) using count(*)",
    ],
)
def test_short_forms_of_select_are_allowed(attacked: Database, sql: str) -> None:
    assert attacked.query(sql).num_rows > 0


def test_a_select_may_call_a_macro_however_it_is_spelt(attacked: Database) -> None:
    (row,) = attacked.query("select T_95(4) as t").to_pylist()
    assert row == {"t": pytest.approx(stats.t.ppf(0.975, 4), abs=1e-6)}


def test_stores_opened_one_after_another_or_side_by_side_keep_their_rows_apart(
    kept_store: Store,
) -> None:
    def rows(database: Database) -> int:
        return int(database.query("select * from records").num_rows)

    for _ in range(2):
        with open_database(kept_store) as both:
            assert rows(both) == 15
            with (
                open_database(kept_store, "night-2") as one,
                open_database(kept_store, "no") as none,
            ):
                assert (rows(one), rows(none), rows(both)) == (6, 0, 15)


def test_rows_of_a_finished_sweep_are_copied_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trials() -> int:
        with open_database(store) as database:
            return int(database.query("select * from records").num_rows)

    store.write_part("night-1", to_table(make_pair(0, 10, 12)))
    assert trials() == 2
    with monkeypatch.context() as patch:
        patch.delattr(Database, "_read_records")
        assert trials() == 2
    store.write_part("night-1", to_table(make_pair(1, 10, 12)))
    assert trials() == 4
    store.write(*make_pair(2, 10, 12))
    assert trials() == 6, "a sweep that goes on"


@pytest.mark.slow
@pytest.mark.parametrize(("pattern", "expected"), [("night-*", 15), ("*-2", 6), ("day-*", 0)])
def test_sweeps_are_picked_by_a_pattern_when_opened_and_when_asked(
    kept_store: Store, pattern: str, expected: int
) -> None:
    with open_database(kept_store, pattern) as database:
        assert database.query("select * from records").num_rows == expected
    with open_database(kept_store) as database:
        asked = database.query(f"select trials from environment(of_sweep_id := '{pattern}')")
    assert sum(asked.to_pydict()["trials"]) == expected


def test_a_question_that_lacks_memory_goes_on_in_a_folder_of_its_own_that_is_gone_afterwards(
    kept_store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(asking, "FEW_ROWS", NONE)
    monkeypatch.setitem(LOCKED, "memory_limit", "64MB")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    large = (
        "select row_number() over (order by hash(x)) as place from range(2_000_000) as series (x)"
    )
    with open_database(kept_store) as database:
        (folder,) = tmp_path.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (row,) = database.query(f"select max(place) as most from ({large})").to_pylist()
        assert row == {"most": 2_000_000}
        outside = f"with a as (copy (select 1) to '{folder}/../new') select * from a"
        with pytest.raises(QueryError, match="the query failed"):
            database.query(outside)
    assert list(tmp_path.iterdir()) == []


def test_where_no_folder_can_be_made_questions_are_answered_without(
    kept_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "FEW_ROWS", NONE)
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with open_database(kept_store) as database:
        assert database.query("select count(*) as n from records").to_pylist() == [{"n": 15}]


def _is_refused(database: Database, store: Store, sql: str, message: str) -> None:
    root = Path(store.location)
    file = root / store.files()[0]
    before = _contents(root)
    with pytest.raises(QueryError, match=message):
        database.query(sql.format(store=root, file=file))
    trials = database.query("select count(*) as trials from records").to_pylist()
    assert trials == [{"trials": 15}]
    assert _contents(root) == before


def _contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_ctrl_c_while_the_records_are_shown_is_a_ctrl_c(
    kept_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, however busy the machine is, in whichever thread DuckDB works."""
    endless = "select count(*) as n from range(1000000000000)"
    monkeypatch.setattr(asking, "REPEATED_KEYS", endless)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    presses = Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    try:
        with open_database(kept_store) as database:
            presses.start()
            began = process_time()
            with pytest.raises(KeyboardInterrupt):
                database.query("select count(*) from records")
            assert process_time() - began < asking.INTERRUPT_S
    finally:
        presses.cancel()
        signal.signal(signal.SIGINT, before)
