"""Results in a notebook: a store's questions, answered as Arrow, pandas or polars tables."""

from __future__ import annotations

import html
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from cudnn_sweep.analysis.asking.queries import (
    NamedQuery,
    Value,
    load_query,
    own_queries,
    parse_query,
    query_names,
    readable_queries,
)
from cudnn_sweep.analysis.errors import AnalysisError, StoreError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from cudnn_sweep.analysis.storing.store import Store

SHOWN_ROWS = 20  # of an answer that a notebook displays


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
    """One results location. Every question is asked of what is stored by then."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def questions(self) -> Answer:
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
        return Answer(pa.table(columns))

    def query(self, name: str, **values: Value) -> Answer:
        """A named question's answer, with parameters of it: `query("failures", sweep_id="...")`.

        One's own, ./NAME.sql or ./queries/NAME.sql, is found by name too.
        """
        return self._ask(load_query(name, own_queries()), values)

    def sql(self, text: str, **values: Value) -> Answer:
        """The answer to one SELECT over the view `records`; it may hold parameters as `$name`."""
        return self._ask(parse_query("the SQL given", text), values)

    def _ask(self, asked: NamedQuery, values: dict[str, Value]) -> Answer:
        from cudnn_sweep.analysis.asking.database import left_out, open_database

        every = asked.values(values) if asked.parameters else values
        with open_database(self._store) as database:
            answer = Answer(database.query(asked.sql, every))
            for torn in database.torn_files:  # those too that the question came upon
                warnings.warn(left_out(torn), stacklevel=3)
            return answer

    def __repr__(self) -> str:
        return f"<results in {self._store.folder.shown()}>"


class Answer:
    """A question's rows. Whatever reads Arrow takes it as it is: `polars.DataFrame(answer)`."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def arrow(self) -> pa.Table:
        """The rows as PyArrow has them."""
        return self._table

    def pandas(self) -> pd.DataFrame:
        """As pandas has it; AnalysisError without the extra `notebook`."""
        try:
            import pandas as _  # noqa: F401  # pyarrow's own error would not say how to get it
        except ImportError:
            _refuse("pandas")
        frame: pd.DataFrame = self._table.to_pandas()
        return frame

    def polars(self) -> pl.DataFrame:
        """As polars has it; AnalysisError without the extra `notebook`."""
        try:
            import polars
        except ImportError:
            _refuse("polars")
        return polars.DataFrame(self._table)

    def __len__(self) -> int:
        rows: int = self._table.num_rows
        return rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<answer of {self._size()}>"

    def _repr_html_(self) -> str:
        from cudnn_sweep.analysis.asking.formats import plain_rows, readable

        rows = [[readable(value) for value in row] for row in plain_rows(self._table[:SHOWN_ROWS])]
        head = _html_row("th", self._table.column_names)
        body = "".join(_html_row("td", row) for row in rows)
        cut = f", the first {SHOWN_ROWS} shown" if len(self) > SHOWN_ROWS else ""
        return (
            f"<table><thead>{head}</thead><tbody>{body}</tbody></table><p>{self._size()}{cut}</p>"
        )

    def _size(self) -> str:
        return f"{len(self)} rows, {self._table.num_columns} columns"


def _html_row(tag: str, cells: list[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _refuse(package: str) -> NoReturn:
    raise AnalysisError(
        f"{package}() needs the package {package}, which is not installed: "
        "pip install 'cudnn-sweep[notebook]'"
    ) from None
