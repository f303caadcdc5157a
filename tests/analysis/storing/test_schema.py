import shutil
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.storing.schema import (
    SCHEMA_VERSION,
    arrow_schema,
    to_table,
)
from cudnn_sweep.analysis.storing.store import open_store
from tests.analysis.conftest import make_record

DATA = Path(__file__).parents[1] / "data"  # each file there was written by write_fixture.py


def test_a_record_survives_being_stored() -> None:
    record = make_record()
    (row,) = to_table([record]).to_pylist()
    for field in arrow_schema():
        if pa.types.is_map(field.type) and row[field.name] is not None:
            row[field.name] = dict(row[field.name])
    assert row == asdict(record)


def test_a_file_of_every_schema_version_still_reads(tmp_path: Path) -> None:
    for version in range(1, SCHEMA_VERSION + 1):
        root = tmp_path / str(version)
        (root / "sweep=night-1").mkdir(parents=True)
        shutil.copy(DATA / f"schema-{version}.parquet", root / "sweep=night-1/part-1.parquet")
        store = open_store(str(root))
        assert store.sweeps()[0].recorded == 1
        with open_database(store) as database:
            table = database.query("select * from records")
        assert table.column_names == [*arrow_schema().names, "config"]
        assert table["schema_version"].to_pylist() == [version]


def test_the_present_layout_is_the_one_of_its_version() -> None:
    stored = pq.read_schema(DATA / f"schema-{SCHEMA_VERSION}.parquet")
    assert stored.equals(arrow_schema()), (
        "columns changed: raise SCHEMA_VERSION, then run `make docs`; where this version is in no "
        f"release yet, delete its schema-{SCHEMA_VERSION}.parquet first"
    )
