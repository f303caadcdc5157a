"""Results in a notebook: a store's questions, answered as Arrow tables."""

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
    """Open the results in a folder, or under a URL (s3://, gs://). Raise StoreError if there are none."""
    from cudnn_sweep.analysis.store.store import open_store

    store = open_store(str(location))
    if not store.sweep_ids():
        raise StoreError(
            f"no results in {store.folder.shown()}: found no sweep=* folder; allowed is a location "
            "that `sweep launch` wrote to"
        )
    return Results(store)


class Results:
    """One results location. Each query reads the rows that are stored when it runs, and returns a PyArrow table:
    `answer.to_pandas()`, `polars.DataFrame(answer)`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def questions(self) -> pa.Table:
        """Return a table of the named questions and their parameters, one row for each question."""
        import pyarrow as pa

        own, faults = readable_queries(own_queries())
        for fault in faults:
            warnings.warn(f"left out a question: {fault}", stacklevel=2)
        queries = [*map(load_query, query_names()), *own.values()]
        columns = {
            "name": [query.name for query in queries],
            "question": [query.question for query in queries],
            "parameters": [[parameter.name for parameter in query.parameters] for query in queries],
        }
        return pa.table(columns)

    def query(self, name: str, **values: Value) -> pa.Table:
        """Return the answer to the question `name`: `query("failures", sweep_id="...")`.

        `values` are the question's parameters. A question of your own is a file ./NAME.sql or
        ./queries/NAME.sql.
        """
        return self._ask(load_query(name, own_queries()), values)

    def sql(self, text: str, **values: Value) -> pa.Table:
        """Return the answer to one SELECT over the view `records`. In the SELECT, `$name` stands
        for the argument `name`."""
        return self._ask(parse_query("the SQL given", text), values)

    def _ask(self, question: NamedQuery, values: dict[str, Value]) -> pa.Table:
        from cudnn_sweep.analysis.engine.database import left_out, open_database

        every = question.values(values) if question.parameters else values
        with open_database(self._store) as database:
            answer = database.query(question.sql, every)
            for torn in database.torn_files:  # with those that the question found
                warnings.warn(left_out(torn), stacklevel=3)
            return answer

    def __repr__(self) -> str:
        return f"<results in {self._store.folder.shown()}>"
