import csv
import io
import json
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cudnn_sweep.analysis.asking import formats

TABLE = pa.table(
    {
        "name": ["a|b", None],
        "ms": [1234.5678, float("inf")],
        "shape": [[1, 2], []],
        "rule": pa.array([[("batch", 1.0)], None], pa.map_(pa.string(), pa.float64())),
        "at": [datetime(2025, 1, 1, tzinfo=UTC), None],
        "ok": [True, None],
    }
)


def test_csv_keeps_full_precision_and_leaves_missing_values_empty() -> None:
    names, first, second = csv.reader(io.StringIO(formats.to_csv(TABLE)))
    assert names == ["name", "ms", "shape", "rule", "at", "ok"]
    assert first == [
        "a|b",
        "1234.5678",
        "[1, 2]",
        '{"batch": 1.0}',
        "2025-01-01T00:00:00+00:00",
        "true",
    ]
    assert second == ["", "", "[]", "", "", ""]


def test_json_is_a_list_of_objects_that_any_reader_takes() -> None:
    first, second = json.loads(formats.to_json(TABLE), parse_constant=pytest.fail)
    assert first["ms"] == 1234.5678
    assert first["rule"] == {"batch": 1.0}
    assert second["ms"] is None
    assert json.loads(formats.to_json(TABLE.slice(0, 0))) == []


def test_markdown_escapes_what_would_end_a_cell() -> None:
    lines = formats.to_markdown(TABLE.select(["name", "ms"])).splitlines()
    assert lines == ["| name | ms |", "| --- | --- |", "| a\\|b | 1,230 |", "|  |  |"]


def test_parquet_keeps_the_types() -> None:
    assert pq.read_table(pa.BufferReader(formats.to_parquet(TABLE))).equals(TABLE)
