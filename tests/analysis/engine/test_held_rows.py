"""What a database copies, exports and says, by the number of rows."""

import os
from pathlib import Path

import duckdb
import pytest

from cudnn_sweep.analysis.engine import database as asking
from cudnn_sweep.analysis.engine.database import _memory_limit, _told, export, open_database
from cudnn_sweep.analysis.engine.dictionary import columns_explained
from cudnn_sweep.analysis.engine.prelude import each_macro
from cudnn_sweep.analysis.engine.queries import parse_query
from cudnn_sweep.analysis.engine.settings import shortened
from cudnn_sweep.analysis.errors import QueryError
from cudnn_sweep.analysis.store.store import Store


def test_a_store_without_a_row_is_empty(kept_store: Store) -> None:
    with open_database(kept_store) as database, open_database(kept_store, "no") as none:
        assert (database.is_empty, none.is_empty) == (False, True)


def test_an_exported_database_needs_the_store_no_more(
    kept_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "FEW_ROWS", 14)
    monkeypatch.setattr(asking, "question_macros", dict)
    file = tmp_path / "exported.duckdb"
    with monkeypatch.context() as patch:
        quoted = {"quoted": each_macro()["quoted"]}
        patch.setattr(asking, "each_macro", lambda: quoted)
        assert export(kept_store, file) == ()
    with duckdb.connect(str(file), read_only=True) as plain:
        assert plain.sql("select count(*) from records").fetchall() == [(15,)]
        assert plain.sql("select quoted('a b')").fetchall() == [('"a b"',)]


@pytest.mark.parametrize(("few_rows", "kept"), [(14, 0), (15, 1)])
def test_the_macros_of_a_small_store_are_kept_for_the_next(
    kept_store: Store, monkeypatch: pytest.MonkeyPatch, few_rows: int, kept: int
) -> None:
    monkeypatch.setattr(asking, "FEW_ROWS", few_rows)
    asking.close_idle()
    with open_database(kept_store) as database:
        assert not database.is_empty
    assert len(asking._idle) == kept


@pytest.mark.parametrize(
    ("physical", "limit"),
    [(2 * 10**9, "1000MB"), (5 * 10**9, "2500MB"), (64 * 10**9, "2500MB"), (10**6, "0MB")],
)
def test_a_question_may_take_half_of_the_memory_and_no_more_than_queries_need(
    monkeypatch: pytest.MonkeyPatch, physical: int, limit: str
) -> None:
    sizes = {"SC_PAGE_SIZE": 1000, "SC_PHYS_PAGES": physical // 1000}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    assert _memory_limit() == limit


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (
            "Catalog Error: Table with name break_even does not exist!",
            "break_even is a macro, not a table; write `from break_even()`",
        ),
        (
            "Table Function with name race does not exist",
            "race is a macro, not a table; write `from race()`",
        ),
        (
            "Table with name nothing does not exist",
            "the query failed: Table with name nothing does not exist",
        ),
        (
            'Referenced column "throttled" not found in FROM clause!\nCandidate bindings: "twin"',
            "the query failed: no column throttled; `throttled` is a value in the list `warnings`",
        ),
        (
            'Referenced column "blok" not found!\nCandidate bindings: "block", "slot"\n\nLINE 1',
            "the query failed: no column blok (did you mean block?); similar names: block, slot",
        ),
        ("file system operations are disabled", "the query failed: a query cannot read files; "),
    ],
)
def test_a_failure_hints_at_a_known_mistake(failure: str, message: str) -> None:
    assert _told(failure).startswith(message)


@pytest.mark.parametrize(("length", "is_short"), [(47, False), (48, True)])
def test_a_long_quoted_text_keeps_its_beginning(length: int, is_short: bool) -> None:
    text = f"name {'x' * (length - 5)}"
    line = shortened(f'errata="{text}"')
    assert (line == f'errata="{text}"') is not is_short
    if is_short:
        assert line.startswith(f'errata="{text[:23]}... #')
        assert line != shortened(f'errata="{text[:-1]}y"')


def test_a_question_without_parameters_says_so() -> None:
    plain = parse_query("mine", "-- How many?\nselect count(*) as trials from records\n")
    with pytest.raises(QueryError, match="mine has no parameter 'x'; its parameters: none$"):
        plain.values({"x": 1})
    one = parse_query("mine", "-- How many?\n-- $least BIGINT = 1: leave out\nselect $least as n\n")
    with pytest.raises(QueryError, match="its parameters: least$"):
        one.values({"x": 1})


def test_columns_that_nothing_explains_have_an_empty_meaning() -> None:
    sql = "-- Which?\nselect cell_id, 1 as nobody_knows, 0.9 as ratio, 0.8 as ratio_low from records\n"
    found = columns_explained(parse_query("mine", sql))
    assert list(found) == ["cell_id", "nobody_knows", "ratio", "ratio_low"]
    assert found["nobody_knows"] == ""
    assert found["cell_id"] and found["ratio"]
    assert found["ratio_low"].endswith("end of its 95% interval")
