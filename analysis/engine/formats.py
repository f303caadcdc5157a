"""Formats tables as CSV, JSON, Markdown or Parquet."""

import csv
import io
import json
import math
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from itertools import count
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cudnn_sweep.analysis.errors import QueryError
from cudnn_sweep.analysis.words import number, printable

FORMULA = re.compile(r"\s*[=+\-@\t\r]")


def to_csv(table: pa.Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_no_formula, table.column_names))
    writer.writerows([_csv_cell(value) for value in row] for row in plain_rows(table))
    return text.getvalue()


def to_json(table: pa.Table) -> str:
    """Return a JSON list with an object for each row. Each object has its own line."""
    names = _distinct(table.column_names)
    rows = [dict(zip(names, row, strict=True)) for row in plain_rows(table)]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return f"[\n{lines}\n]\n" if rows else "[]\n"


def to_markdown(table: pa.Table) -> str:
    head = [_markdown_row(table.column_names), _markdown_row(["---"] * table.num_columns)]
    rows = [_markdown_row([readable(value) for value in row]) for row in plain_rows(table)]
    return "\n".join([*head, *rows]) + "\n"


def to_parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return bytes(sink.getvalue())


def plain_rows(table: pa.Table) -> Iterator[list[object]]:
    columns = [[json_value(value) for value in _values(column)] for column in table.columns]
    return (list(row) for row in zip(*columns, strict=True))


def plain_column(table: pa.Table, name: str) -> list[object]:
    return [value for (value,) in plain_rows(table.select([name]))]


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values, or their texts if Python cannot represent a value."""
    try:
        return list(column.to_pylist(maps_as_pydicts="strict"))
    except (ValueError, OverflowError):
        try:
            return list(column.cast(pa.string()).to_pylist())
        except pa.ArrowException as error:
            raise QueryError(f"a column of type {column.type} cannot be shown: {error}") from None


def _distinct(names: list[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        free = (each for number in count(1) if (each := f"{name}_{number}") not in (*names, *found))
        found.append(next(free) if name in found else name)
    return found


def _csv_cell(value: object) -> str:
    text = value if isinstance(value, str) else _cell(value)
    # Some readers end a row at a carriage return. `printable` replaces escape codes for terminals.
    lines = printable(text.replace("\r\n", "\n").replace("\r", "\n"))
    return _no_formula(lines) if isinstance(value, str) else lines


def _no_formula(text: str) -> str:
    return f"'{text}" if FORMULA.match(text) else text


def readable(value: object) -> str:
    return number(value) if isinstance(value, float) else _cell(value)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _markdown_row(cells: list[str]) -> str:
    return f"| {' | '.join(escaped(cell) for cell in cells)} |"


def escaped(cell: str) -> str:
    """Escape text for Markdown, so that it cannot become markup, a link or a mention."""
    text = printable(cell).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    marked = re.sub(r"([\\`*\[\]~|])", r"\\\1", text)
    return unlinked(marked).replace("\n", "<br>")


def unlinked(text: str) -> str:
    """Change Markdown so that addresses and `@name` do not become links."""
    return re.sub(r"(?<=:)//|(?<=www)\.|@", lambda found: f"<!-- -->{found[0]}", text)


def escaped_line(text: str) -> str:
    return escaped(" ".join(text.split()))


def json_value(value: object) -> object:
    """Convert a value for JSON. Times become ISO 8601 texts, and NaN and infinity become None."""
    if isinstance(value, SimpleNamespace):
        return json_value(vars(value))
    if is_dataclass(value):
        return {field.name: json_value(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): json_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(inner) for inner in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)
