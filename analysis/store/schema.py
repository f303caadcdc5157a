"""Makes the Arrow schema of results from `RunRecord`."""

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import TypeVar, get_args, get_origin, get_type_hints

import pyarrow as pa

from cudnn_sweep.workloads.records.row import CELL, SCHEMA_VERSION, Axis, Part, RunRecord, Setting

__all__ = ["SCHEMA_VERSION", "RunRecord"]

ARROW_TYPES = {
    str: pa.string(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    datetime: pa.timestamp("us", tz="UTC"),
}


@cache
def settings() -> Mapping[str, Setting]:
    return _marked(Setting)


def setting_name(column: str) -> str:
    return column.removeprefix("config_")


@cache
def axes() -> Mapping[str, Axis]:
    return _marked(Axis)


@cache
def columns_of(part: Part) -> tuple[str, ...]:
    """Return the columns that identify a cell, the hardware or the software."""
    marked = {**_marked(str), **dict.fromkeys(axes(), CELL)}
    return tuple(name for name in arrow_schema().names if marked.get(name) == part)


@cache
def arrow_schema() -> pa.Schema:
    """Return the schema of stored rows. The metadata of each field has its meaning."""
    return pa.schema([_arrow_field(name, column) for name, column in _columns(RunRecord).items()])


def to_table(records: list[RunRecord]) -> pa.Table:
    names = arrow_schema().names  # `asdict` would copy every number in the lists
    rows = [{name: _plain(getattr(record, name)) for name in names} for record in records]
    return pa.Table.from_pylist(rows, schema=arrow_schema())


def _plain(value: object) -> object:
    if isinstance(value, list) and value and is_dataclass(value[0]):
        return [asdict(item) for item in value]
    return value


def _columns(record_type: type) -> dict[str, tuple[object, ...]]:
    hints = get_type_hints(record_type, include_extras=True)
    return {
        field.name: (hints[field.name], *field.metadata.values())
        if field.metadata
        else get_args(hints[field.name])
        for field in fields(record_type)
    }


Mark = TypeVar("Mark")


def _marked(kind: type[Mark]) -> dict[str, Mark]:
    columns = _columns(RunRecord).items()
    return {name: mark for name, column in columns for mark in column[2:] if isinstance(mark, kind)}


def _arrow_field(name: str, column: tuple[object, ...]) -> pa.Field:
    python_type, meaning, *_marks = column
    nullable = NoneType in get_args(python_type)
    return pa.field(name, _arrow_type(python_type), nullable, metadata={"meaning": meaning})


def _arrow_type(python_type: object) -> pa.DataType:
    if isinstance(python_type, UnionType):
        (python_type,) = (kind for kind in get_args(python_type) if kind is not NoneType)
    if get_origin(python_type) is list:
        return pa.list_(_arrow_type(get_args(python_type)[0]))
    if get_origin(python_type) is dict:
        return pa.map_(*map(_arrow_type, get_args(python_type)))
    if is_dataclass(python_type):
        assert isinstance(python_type, type)
        return pa.struct([_arrow_field(*column) for column in _columns(python_type).items()])
    return ARROW_TYPES[python_type]  # type: ignore[index]
