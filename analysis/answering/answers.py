"""A question's answer as rows, for whoever displays it."""

from collections.abc import Hashable, Mapping
from types import SimpleNamespace
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from cudnn_sweep.analysis.asking.database import Database, open_database
from cudnn_sweep.analysis.asking.queries import Value
from cudnn_sweep.analysis.storing.stored import Stored

KEPT = 8  # answers a store: a launch asks the same at its end and for its summary


class AnswerRow(SimpleNamespace):
    """A row of a question's answer: each of its columns is an attribute; the question's SQL says what it means."""


Row = TypeVar("Row", bound=AnswerRow)
_answers: WeakKeyDictionary[Stored, dict[Hashable, list[Any]]] = WeakKeyDictionary()


def answer(
    row_type: type[Row], store: Stored, sweep_id: str | None, name: str, values: Mapping[str, Value]
) -> list[Row]:
    """The rows of a question's answer, over one sweep or all.

    Asked again before a file came or went, it is not worked out again: files are written once.
    """
    files = [path for each in store.stores for path in each.files(sweep_id)]
    asked = (row_type, sweep_id, name, frozenset(values.items()), tuple(files))
    kept = _answers.setdefault(store, {})
    rows = kept.get(asked)
    if rows is None:
        with open_database(store, sweep_id) as database:
            rows = answer_of(row_type, database, name, values)
        kept[asked] = rows
        for oldest in list(kept)[:-KEPT]:
            kept.pop(oldest, None)
    return list(rows)


def answer_of(
    row_type: type[Row], database: Database, name: str, values: Mapping[str, Value]
) -> list[Row]:
    """The same over rows that are open already."""
    return [row_type(**row) for row in database.ask(name, **values).to_pylist()]
