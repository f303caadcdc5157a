"""A question's answer as typed rows, for whoever displays it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

from cudnn_sweep.analysis.asking.database import Database, open_database
from cudnn_sweep.analysis.asking.queries import Value, load_query
from cudnn_sweep.analysis.storing.stored import Stored

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Row = TypeVar("Row", bound=DataclassInstance)


def answer(
    row_type: type[Row], store: Stored, sweep_id: str | None, name: str, values: Mapping[str, Value]
) -> list[Row]:
    """The columns that `row_type` has of a question's answer, over one sweep or all."""
    with open_database(store, sweep_id) as database:
        return answer_of(row_type, database, name, values)


def answer_of(
    row_type: type[Row], database: Database, name: str, values: Mapping[str, Value]
) -> list[Row]:
    """The same over rows that are open already."""
    question = load_query(name)
    table = database.query(question.sql, question.values(values))
    columns = [field.name for field in fields(row_type)]
    return [row_type(**row) for row in table.select(columns).to_pylist()]
