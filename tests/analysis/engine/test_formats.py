import csv
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from cudnn_sweep.analysis.engine import formats
from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.engine.queries import read_query
from cudnn_sweep.analysis.store.store import Store
from cudnn_sweep.analysis.store.stored import open_stored

ROOT = Path(__file__).parents[3]

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


# pytorch/test-infra at 3c0eb5c3ab14, clickhouse_db_schema/oss_ci_benchmark_v3/schema.sql, a line a tuple; what uploads
# adds the other columns. pytorch/pytorch's wiki, PyTorch-OSS-benchmark-infra, says which are required.
TEXT, COUNT = {"type": "string"}, {"type": "integer", "minimum": 0}
VALUES = {"type": "array", "items": {"type": "number"}, "minItems": 1}
TYPES: dict[str, dict[str, object]] = {
    "benchmark_values": VALUES,
    "origins": {"type": "array", "items": TEXT},
    "extra_info": {"type": "object", "additionalProperties": TEXT},
    **dict.fromkeys(("cpu_count", "avail_mem_in_gb", "gpu_count", "avail_gpu_mem_in_gb"), COUNT),
}


def fields(names: str, *required: str) -> dict[str, object]:
    properties = {name: TYPES.get(name, TEXT) for name in names.split()}
    known = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**known, "required": [*required]}


RUNNER = fields(
    "name type cpu_info cpu_count mem_info avail_mem_in_gb gpu_info gpu_count gpu_mem_info "
    "avail_gpu_mem_in_gb extra_info"
)
HUD_RECORD = {
    "type": "object",
    "properties": {
        "benchmark": fields("name mode dtype extra_info", "name"),
        "model": fields("name type backend origins extra_info", "name"),
        "metric": fields(
            "name benchmark_values target_value extra_info", "name", "benchmark_values"
        ),
        "runners": {"type": "array", "items": RUNNER},
        "dependencies": {
            "type": "object",
            "additionalProperties": fields("repo branch sha version extra_info"),
        },
    },
    "required": ["benchmark", "model", "metric"],
    "additionalProperties": False,
}


@pytest.mark.slow
def test_records_for_pytorchs_dashboard_have_its_fields(kept_store: Store) -> None:
    with open_database(kept_store) as database:
        records = json.loads(formats.to_json(database.ask("hud")))
    for record in records:
        jsonschema.validate(record, HUD_RECORD)
    metrics = {record["metric"]["name"]: record["metric"] for record in records}
    assert {"steady_wall", "cold_warm", "peak_memory", "error"} <= set(metrics)
    assert all(len(each["benchmark_values"]) > 1 for each in metrics.values())
    assert {record["benchmark"]["mode"] for record in records} <= {"training", "inference"}


OTAVA = ROOT / "docs/examples/otava"
MADE_UP = ROOT / "tests/goldens/made-up"


def test_example_for_otava_has_the_columns_of_its_configuration_and_one_value_a_night() -> None:
    (test,) = YAML(typ="safe").load(OTAVA / "otava.yaml")["tests"].values()
    with open_database(open_stored([str(MADE_UP)])) as database:
        text = formats.to_csv(database.query(read_query("series", OTAVA / "series.sql").sql, {}))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {test["time_column"], "branch", *test["attributes"], *test["metrics"]} <= set(rows[0])
    places = {(row["branch"], datetime.fromisoformat(row[test["time_column"]])) for row in rows}
    assert len(places) == len(rows) and len({night for _, night in places}) == 4
    assert all(float(row[metric]) >= 0 for row in rows for metric in test["metrics"])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "a_1", "a_2"]),
        (["a", "a_1", "a"], ["a", "a_1", "a_2"]),
        (["a", "a", "a_1", "a"], ["a", "a_2", "a_1", "a_3"]),
    ],
)
def test_columns_of_one_name_are_told_apart(names: list[str], expected: list[str]) -> None:
    table = pa.table([[number] for number in range(len(names))], names=names)
    (row,) = json.loads(formats.to_json(table))
    assert row == {name: number for number, name in enumerate(expected)}
