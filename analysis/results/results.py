"""Runs questions on stored results, and returns PyArrow tables."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from cudnn_sweep.analysis.engine.queries import (
    NamedQuery,
    Value,
    load_query,
    own_queries,
    parse_query,
    query_names,
    readable_queries,
)
from cudnn_sweep.analysis.errors import StoreError

if TYPE_CHECKING:
    import pyarrow as pa

    from cudnn_sweep.analysis.store.store import Store


def open_results(location: str | Path = "results") -> Results:
    """Open results in a folder or at a URL (s3://, gs://). Raise StoreError if there are none."""
    from cudnn_sweep.analysis.store.store import open_store

    store = open_store(str(location))
    if not store.sweep_ids():
        raise StoreError(
            f"no results in {store.folder.shown()}: found no sweep=* folder. "
            "Give a location that `sweep launch` wrote to."
        )
    return Results(store)


class Results:
    """Results in one location. Queries return PyArrow tables, which have `to_pandas()`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def questions(self) -> pa.Table:
        """Return a table of all named questions and their parameters."""
        import pyarrow as pa

        own, faults = readable_queries(own_queries())
        for fault in faults:
            warnings.warn(f"A question cannot be read and is left out: {fault}", stacklevel=2)
        queries = [*map(load_query, query_names()), *own.values()]
        columns = {
            "name": [query.name for query in queries],
            "question": [query.question for query in queries],
            "parameters": [[parameter.name for parameter in query.parameters] for query in queries],
        }
        return pa.table(columns)

    def query(self, name: str, **values: Value) -> pa.Table:
        """Run the question `name`, as in `query("failures", sweep_id="...")`.

        `values` are the question's parameters. Your own questions are the files ./NAME.sql and
        ./queries/NAME.sql.
        """
        return self._ask(load_query(name, own_queries()), values)

    def sql(self, text: str, **values: Value) -> pa.Table:
        """Run one SELECT on the view `records`. The argument `name` is the value of `$name`."""
        return self._ask(parse_query("the SQL given", text), values)

    def _ask(self, question: NamedQuery, values: dict[str, Value]) -> pa.Table:
        from cudnn_sweep.analysis.engine.database import left_out, open_database

        every = question.values(values) if question.parameters else values
        with open_database(self._store) as database:
            answer = database.query(question.sql, every)
            for torn in database.torn_files:  # the query may have found more of them
                warnings.warn(left_out(torn), stacklevel=3)
            return answer

    def __repr__(self) -> str:
        return f"<results in {self._store.folder.shown()}>"
