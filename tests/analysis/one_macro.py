"""A macro of analysis/macros alone: few hand-written rows stand for what it reads."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection

from cudnn_sweep.analysis.engine.prelude import each_macro
from cudnn_sweep.analysis.engine.settings import QUOTED_MACRO, with_config
from cudnn_sweep.analysis.store.schema import arrow_schema

Rows = list[dict[str, Any]]


@cache
def _with_macros() -> Connection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(QUOTED_MACRO)
    fill_records(connection, [])
    for statement in each_macro().values():
        connection.execute(statement)
    return connection


@contextmanager
def macros(standing: Mapping[str, str] | None = None) -> Iterator[Connection]:
    """Yield plain DuckDB with every macro. `standing`: tables instead of macros, by the macro's head."""
    with _with_macros().cursor() as connection:
        connection.begin()
        for head, table in (standing or {}).items():
            fill(connection, table, [{"to_be": "filled"}])
            connection.execute(f"create or replace macro {head} as table from {table}")
        yield connection
        connection.rollback()


def fill(
    connection: Connection, name: str, rows: Rows, types: Mapping[str, pa.DataType] | None = None
) -> None:
    """Make a table of these rows; `types`: of columns that may have only nulls."""
    columns = dict.fromkeys(column for row in rows for column in row)
    arrays = {
        column: pa.array([row.get(column) for row in rows], type=(types or {}).get(column))
        for column in columns
    }
    connection.register(name, pa.table(arrays))


def fill_records(connection: Connection, rows: Rows | pa.Table) -> None:
    """Make the view `records` of these rows; columns that they lack are null."""
    is_table = isinstance(rows, pa.Table)
    table = rows if is_table else pa.Table.from_pylist(rows, schema=arrow_schema())
    connection.register("stored", table)
    sql = with_config("select * from stored")
    connection.execute(f"create or replace table with_config as {sql}")
    connection.execute("create or replace view records as from with_config")


def fill_like_records(
    connection: Connection, name: str, rows: Rows, *, texts: Iterable[str]
) -> None:
    """Make a table with the columns of a stored file, and these further columns of text."""
    schema = pa.schema([*arrow_schema(), *(pa.field(text, pa.string()) for text in texts)])
    connection.register(name, pa.Table.from_pylist(rows, schema=schema))


def ask(connection: Connection, sql: str) -> Rows:
    rows: Rows = connection.sql(sql).to_arrow_table().to_pylist()
    return rows
