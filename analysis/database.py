"""DuckDB over a store, locked down: a user's SQL can read `records` and nothing else.

The rows come in as Arrow data, so that DuckDB itself may touch no file at all. Allowing it the
store's folder is not enough: a COPY inside a `with` is a SELECT to its parser, and would write there.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from cudnn_sweep.analysis.errors import QueryError
from cudnn_sweep.analysis.prelude import RECORDS_VIEW, macros
from cudnn_sweep.analysis.queries import Value
from cudnn_sweep.analysis.snapshot import Snapshot
from cudnn_sweep.analysis.store import Store

LOCKED = {
    "TimeZone": "UTC",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,  # else SQL sees the Python variables of its callers
    "temp_directory": "",  # DuckDB may always write to it
    "enable_external_access": False,
    "lock_configuration": True,
}


class Database:
    """Answers SQL over one snapshot of a store."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, snapshot: Snapshot) -> None:
        self._connection = connection
        self.torn_files = snapshot.torn
        """Damaged files that the answers leave out: callers say so."""
        self.is_empty = snapshot.is_empty

    def query(self, sql: str, values: Mapping[str, Value] | None = None) -> pa.Table:
        """The answer to one SELECT; QueryError where it is anything else, or fails."""
        try:
            self._refuse_all_but_select(sql)
            relation = self._connection.sql(sql, params=dict(values) if values else None)
            return relation.to_arrow_table()
        except (duckdb.Error, pa.ArrowException) as error:
            raise QueryError(f"the query failed: {error}") from error

    def _refuse_all_but_select(self, sql: str) -> None:
        found = [statement.type.name for statement in self._connection.extract_statements(sql)]
        if found != [duckdb.StatementType.SELECT.name]:
            raise QueryError(f"found {', '.join(found) or 'no statement'}; allowed is one SELECT")


@contextmanager
def open_database(store: Store, sweep_id: str | None = None) -> Iterator[Database]:
    """The view `records` of what is stored now, of one sweep or of all, with the macros."""
    with open_snapshot(store.snapshot(sweep_id)) as database:
        yield database


@contextmanager
def open_snapshot(snapshot: Snapshot) -> Iterator[Database]:
    """The same over rows at hand."""
    with duckdb.connect() as connection:
        _show_records(connection, snapshot)
        connection.execute(macros())
        for name, value in LOCKED.items():
            connection.execute(f"set {name} = {value!r}")
        yield Database(connection, snapshot)


def _show_records(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot) -> None:
    connection.register("loose_rows", snapshot.loose)
    connection.register("part_rows", snapshot.parts)
    rows = "select * from loose_rows union all select * from part_rows"
    connection.execute(RECORDS_VIEW.format(rows=rows))
