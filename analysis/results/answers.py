"""Answers of questions as Python objects, with one object for each row."""

from collections.abc import Hashable, Iterable
from types import SimpleNamespace
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

from cudnn_sweep.analysis.engine.database import Database, open_database
from cudnn_sweep.analysis.engine.queries import Value
from cudnn_sweep.analysis.results.contrast import Contrast
from cudnn_sweep.analysis.store.stored import Stored

KEPT = 8  # answers kept for a store, because a launch runs the same questions twice
_answers: WeakKeyDictionary[Stored, dict[Hashable, list[Any]]] = WeakKeyDictionary()


class AnswerRow(SimpleNamespace):
    """A row of a question's answer. Its attributes are the columns."""

    question: ClassVar[str]

    @classmethod
    def of(cls, store: Stored, sweep_id: str | None = None, **values: Value) -> list[Self]:
        """Return the rows about one sweep, or about all sweeps if `sweep_id` is None. Answers are
        reused until the stored files change."""
        files = [path for member in store.stores for path in member.files(sweep_id)]
        key = (cls, sweep_id, frozenset(values.items()), tuple(files))
        kept = _answers.setdefault(store, {})
        rows = kept.get(key)
        if rows is None:
            with open_database(store, sweep_id) as database:
                rows = cls.among(database, **values)
            kept[key] = rows
            for oldest in list(kept)[:-KEPT]:
                kept.pop(oldest, None)
        return list(rows)

    @classmethod
    def of_each(cls, store: Stored, sweep_id: str, contrasts: Iterable[Contrast]) -> list[Self]:
        return [
            row for contrast in contrasts for row in cls.of(store, sweep_id, **contrast.values())
        ]

    @classmethod
    def among(cls, database: Database, **values: Value) -> list[Self]:
        return [cls(**row) for row in database.ask(cls.question, **values).to_pylist()]
