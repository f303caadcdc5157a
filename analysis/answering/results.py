"""Results in a notebook: a store's questions, answered as Arrow tables."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from cudnn_sweep.analysis.asking.queries import (
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

    from cudnn_sweep.analysis.storing.store import Store


def open_results(location: str | Path = "results") -> Results:
    """The results in a folder, or under a URL (s3://, gs://); StoreError where there are none."""
    from cudnn_sweep.analysis.storing.store import open_store

    store = open_store(str(location))
    if not store.sweep_ids():
        raise StoreError(
            f"no results in {store.folder.shown()}: found no sweep=* folder; allowed is a location "
            "that `sweep launch` wrote to"
        )
    return Results(store)


class Results:
    """One results location. Every question is asked of what is stored by then. An answer is a PyArrow table:
    `answer.to_pandas()`, `polars.DataFrame(answer)`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def questions(self) -> pa.Table:
        """The named questions, and the parameters that each one takes: a row a question."""
        import pyarrow as pa

        own, faults = readable_queries(own_queries())
        for fault in faults:
            warnings.warn(f"no question: {fault}", stacklevel=2)
        asked = [*map(load_query, query_names()), *own.values()]
        columns = {
            "name": [each.name for each in asked],
            "question": [each.question for each in asked],
            "parameters": [[each.name for each in one.parameters] for one in asked],
        }
        return pa.table(columns)

    def query(self, name: str, **values: Value) -> pa.Table:
        """A named question's answer, with parameters of it: `query("failures", sweep_id="...")`.

        One's own, ./NAME.sql or ./queries/NAME.sql, is found by name too.
        """
        return self._ask(load_query(name, own_queries()), values)

    def sql(self, text: str, **values: Value) -> pa.Table:
        """The answer to one SELECT over the view `records`; it may hold parameters as `$name`."""
        return self._ask(parse_query("the SQL given", text), values)

    def _ask(self, asked: NamedQuery, values: dict[str, Value]) -> pa.Table:
        from cudnn_sweep.analysis.asking.database import left_out, open_database

        every = asked.values(values) if asked.parameters else values
        with open_database(self._store) as database:
            answer = database.query(asked.sql, every)
            for torn in database.torn_files:  # those too that the question came upon
                warnings.warn(left_out(torn), stacklevel=3)
            return answer

    def __repr__(self) -> str:
        return f"<results in {self._store.folder.shown()}>"
