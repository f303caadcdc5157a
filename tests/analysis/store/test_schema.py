"""What is stored reads back; rows of every schema version do, beside those of the present one."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.engine.prelude import prelude_sql
from cudnn_sweep.analysis.errors import StoreError
from cudnn_sweep.analysis.results.verdicts import Verdict
from cudnn_sweep.analysis.store.parquet import encode
from cudnn_sweep.analysis.store.schema import (
    SCHEMA_VERSION,
    arrow_schema,
    axes,
    settings,
    to_table,
)
from cudnn_sweep.analysis.store.store import Store
from cudnn_sweep.workloads.records.row import Axis, Setting
from tests.analysis.conftest import make_pair, make_record

DATA = Path(__file__).parents[1] / "data"  # each file there was written by write_fixture.py
MARKS: dict[str, Axis | Setting] = {**axes(), **settings()}
USUAL = {name: mark.usual for name, mark in MARKS.items() if mark.usual is not None}
# As if they had come with a later version.
LACKED = {*USUAL} - {"benchmark", "benchmark_limit"} | {"kernels"}
SHOWN = f"select {', '.join(sorted(LACKED))} from records order by trial_id"
DESCRIBED = "select column_name, column_type from (describe records)"


def test_a_record_survives_being_stored() -> None:
    record = make_record()
    (row,) = to_table([record]).to_pylist()
    for field in arrow_schema():
        if pa.types.is_map(field.type) and row[field.name] is not None:
            row[field.name] = dict(row[field.name])
    assert row == asdict(record)


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_a_row_of_every_schema_version_still_reads(store: Store, version: int) -> None:
    stored = pq.read_table(DATA / f"schema-{version}.parquet")
    store.write_part("night-1", stored)
    assert store.sweeps()[0].recorded == 1
    with open_database(store) as database:
        (row,) = database.query("select * from records").to_pylist()
    assert row.keys() == {*arrow_schema().names, "config", "settings", "config_hash"}
    for name, value in {**USUAL, **stored.to_pylist()[0]}.items():
        assert row[name] == value or (row[name], value) == ([], {}), name


def test_the_present_layout_is_the_one_of_its_version() -> None:
    stored = pq.read_schema(DATA / f"schema-{SCHEMA_VERSION}.parquet")
    assert stored.equals(arrow_schema()), "columns changed: raise SCHEMA_VERSION, run `make docs`"


@pytest.mark.parametrize("layout", ["loose", "part"])
def test_rows_of_a_newer_schema_are_refused(store: Store, layout: str) -> None:
    newer = make_record(schema_version=SCHEMA_VERSION + 1)
    if layout == "loose":
        store.write(newer)
    else:
        store.write_part(newer.sweep_id, to_table([newer]))
    wanted = f"has rows of schema {SCHEMA_VERSION + 1}, but .* only up to schema {SCHEMA_VERSION}; update"
    for read in (store.sweeps, store.torn_files, lambda: prelude_sql(store)):
        with pytest.raises(StoreError, match=wanted):
            read()


@pytest.fixture(
    params=[
        "loose",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("part", "compacted together")),
    ]
)
def mixed_store(request: pytest.FixtureRequest, store: Store) -> Store:
    """Two blocks of older rows and two of the present schema, of one cell and environment."""
    sweep_id, layout = "night-1", request.param
    rows = list(_older_rows(sweep_id))
    if layout == "part":
        store.folder.write(f"sweep={sweep_id}/part-1.parquet", encode(pa.concat_tables(rows)))
    else:
        for number, row in enumerate(rows):
            store.folder.write(f"sweep={sweep_id}/trials/old-{number}.parquet", encode(row))
    new = sweep_id if layout == "compacted together" else f"{sweep_id}-later"
    store.write(*(record for block in (2, 3) for record in make_pair(block, 10, 12, sweep_id=new)))
    if layout == "compacted together":
        store.compact(sweep_id)
    return store


def _older_rows(sweep_id: str) -> Iterator[pa.Table]:
    for block in (0, 1):
        for record in make_pair(block, 10.0, 12.0, sweep_id=sweep_id):
            row = to_table([replace(record, trial_id=f"a {record.trial_id}")])
            yield row.drop_columns(sorted(LACKED))


def test_a_sweep_of_older_rows_has_ended_unless_it_is_resumed(store: Store) -> None:
    """Its cell is looked at after three blocks and after five."""
    blocks = [make_pair(n, 10.0, 12.0 + n / 100, looks=[3, 5]) for n in range(4)]
    older, newer = blocks[:3], blocks[3:]
    store.write_part("night-1", to_table([*chain(*older)]).drop_columns(["ends_launch"]))
    (verdict,) = Verdict.of(store)
    assert (verdict.blocks, verdict.error_share) == (3, 1)
    store.write(*(replace(record, ends_launch=False) for record in chain(*newer)))
    (verdict,) = Verdict.of(store)
    assert (verdict.blocks, verdict.error_share) == (3, 0.4), "the fourth block waits for a look"


@pytest.mark.slow
def test_older_rows_have_the_usual_settings_and_axes_and_a_verdict_pools_both(
    mixed_store: Store,
) -> None:
    (verdict,) = Verdict.of(mixed_store)
    assert (verdict.blocks, verdict.wall_verdict) == (4, "hurts")
    with open_database(mixed_store) as database, duckdb.connect() as connection:
        rows = database.query(SHOWN).to_pylist()
        assert [row["kernels"] is None for row in rows] == [True] * 4 + [False] * 4
        lacked = USUAL.keys() & LACKED
        assert all(row[name] in (USUAL[name], []) for row in rows for name in lacked)
        connection.execute(prelude_sql(mixed_store))
        for sql in (SHOWN, DESCRIBED):
            plain = connection.sql(sql).to_arrow_table()
            assert plain.to_pylist() == database.query(sql).to_pylist()
