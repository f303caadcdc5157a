"""Files of every schema version in one store, as after an update between two nights."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cudnn_sweep.analysis.answering.verdicts import verdicts
from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.asking.prelude import prelude_sql
from cudnn_sweep.analysis.asking.queries import load_query, query_names
from cudnn_sweep.analysis.storing.parquet import encode
from cudnn_sweep.analysis.storing.schema import SCHEMA_VERSION
from cudnn_sweep.analysis.storing.store import Store
from tests.analysis.conftest import make_pair

OLD = Path(__file__).parents[1] / "data" / "schema-1.parquet"


COLD = """
select schema_version, cold[1].first_ms as first_ms, cold[1].first_forward_ms as first_forward_ms,
    len(kernels) as kernels, count(*) as trials
from records group by all order by all
"""
DESCRIBED = "select column_name, column_type from (describe records)"

LAYOUTS = ("loose", "part", "compacted together")


@pytest.fixture(params=LAYOUTS)
def mixed_store(request: pytest.FixtureRequest, store: Store) -> Store:
    _add_mixed(store, request.param, "night-1")
    return store


@pytest.fixture
def every_mixed_store(store: Store) -> Store:
    """All of these in one."""
    for layout in LAYOUTS:
        _add_mixed(store, layout, layout.replace(" ", "-"))
    return store


def _add_mixed(store: Store, layout: str, sweep_id: str) -> None:
    """Two blocks of schema 1 and two of the present schema, of one cell and environment."""
    rows = [_old_row(sweep_id, block, benchmark) for block in (0, 1) for benchmark in (False, True)]
    if layout == "part":
        store.folder.write(f"sweep={sweep_id}/part-1.parquet", encode(pa.concat_tables(rows)))
    else:
        for number, row in enumerate(rows):
            store.folder.write(f"sweep={sweep_id}/trials/old-{number}.parquet", encode(row))
    new = sweep_id if layout == "compacted together" else f"{sweep_id}-later"
    for block in (2, 3):
        for record in make_pair(block, 10.0, 12.0, sweep_id=new):
            store.write(record)
    if layout == "compacted together":
        store.compact(sweep_id)


@pytest.mark.slow
def test_columns_that_an_old_file_lacks_are_null_and_a_verdict_pools_both(
    mixed_store: Store,
) -> None:
    with open_database(mixed_store) as database:
        ours = database.query(COLD).to_pylist()
        described = database.query(DESCRIBED).to_pylist()
    old = {"schema_version": 1, "first_ms": 30.0, "first_forward_ms": None, "kernels": None}
    new = {"schema_version": SCHEMA_VERSION, "first_forward_ms": 20.0, "kernels": 2, "trials": 2}
    assert ours == [
        {**old, "trials": 4},
        {**new, "first_ms": 30.0},
        {**new, "first_ms": 500.0},
    ]
    with duckdb.connect() as connection:
        connection.execute(prelude_sql(mixed_store))
        assert connection.sql(COLD).to_arrow_table().to_pylist() == ours
        assert connection.sql(DESCRIBED).to_arrow_table().to_pylist() == described
    (verdict,) = verdicts(mixed_store)
    assert (verdict.blocks, verdict.wall_verdict) == (4, "hurts")
    assert verdict.launch_bound is True, "known from the new ones alone"


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:Arrow output on a DB-API result"
)  # `sql` plans a question twice
def test_every_question_takes_them_together(every_mixed_store: Store) -> None:
    with open_database(every_mixed_store) as database, duckdb.connect() as connection:
        connection.execute("set TimeZone = 'UTC'")
        connection.execute(prelude_sql(every_mixed_store))
        connection.execute("create table read_once as from records")
        connection.execute("create or replace view records as from read_once")
        for name in query_names():
            asked = load_query(name)
            ours = database.query(asked.sql, asked.values({}))
            plain: pa.Table = connection.execute(
                asked.sql, asked.values({}) or None
            ).to_arrow_table()
            assert ours.schema.equals(plain.schema), name
            assert ours.num_rows == plain.num_rows, name


def _old_row(sweep_id: str, block: int, benchmark: bool) -> pa.Table:
    row = pq.read_table(OLD)
    trial = f"old-{block}-{benchmark}".lower()
    changes = {"trial_id": trial, "attempt_id": trial, "block": block, "benchmark": benchmark}
    changes["sweep_id"] = sweep_id
    changes["steady_wall_ms"] = 12.0 if benchmark else 10.0
    for name, value in changes.items():
        field = row.schema.field(name)
        row = row.set_column(row.schema.names.index(name), field, pa.array([value], field.type))
    return row
