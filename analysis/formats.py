"""An answer as text or bytes for other programs. Nested values become JSON; a missing one is empty."""

import csv
import io
import json
import math
from collections.abc import Iterator

import pyarrow as pa

from cudnn_sweep.analysis import parquet
from cudnn_sweep.analysis.json_value import json_value


def to_csv(table: pa.Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows([_cell(value) for value in row] for row in plain_rows(table))
    return text.getvalue()


def to_json(table: pa.Table) -> str:
    """A list of objects, a row on a line."""
    rows = [dict(zip(table.column_names, row, strict=True)) for row in plain_rows(table)]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return f"[\n{lines}\n]\n" if rows else "[]\n"


def to_markdown(table: pa.Table) -> str:
    head = [_markdown_row(table.column_names), _markdown_row(["---"] * table.num_columns)]
    rows = [_markdown_row([readable(value) for value in row]) for row in plain_rows(table)]
    return "\n".join([*head, *rows]) + "\n"


def to_parquet(table: pa.Table) -> bytes:
    content: bytes = parquet.encode(table).to_pybytes()
    return content


def plain_rows(table: pa.Table) -> Iterator[list[object]]:
    """Rows of what JSON knows: maps as objects, times as ISO 8601, infinities as null."""
    names = table.column_names
    maps = {field.name for field in table.schema if pa.types.is_map(field.type)}
    columns = [
        [
            json_value(dict(value) if name in maps and value else value)
            for value in column.to_pylist()
        ]
        for name, column in zip(names, table.columns, strict=True)
    ]
    return (list(row) for row in zip(*columns, strict=True))


def readable(value: object) -> str:
    """A cell for people: three significant digits."""
    if not isinstance(value, float):
        return _cell(value)
    rounded = float(f"{value:.3g}")
    if rounded and not 1e-4 <= abs(rounded) < 1e7:
        return f"{rounded:.3g}"
    whole_digits = math.floor(math.log10(abs(rounded))) if rounded else 0
    return f"{rounded:.{max(0, 2 - whole_digits)}f}"


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _markdown_row(cells: list[str]) -> str:
    return f"| {' | '.join(_escaped(cell) for cell in cells)} |"


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", "<br>")


def two_digits(value: float) -> str:
    """Of a count that is known no better: thousands apart."""
    if value < 10 or not math.isfinite(value):
        return f"{value:.2g}"
    unit = 10 ** (math.floor(math.log10(value)) - 1)
    return f"{round(value / unit) * unit:,}"
