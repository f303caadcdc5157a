"""Which Parquet files are ours and whole, at the edge of each rule; and how a table is written."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cudnn_sweep.analysis.errors import StoreError, TornFileError
from cudnn_sweep.analysis.store import parquet
from cudnn_sweep.analysis.store import stored as stores
from cudnn_sweep.analysis.store.folder import LocalFolder
from cudnn_sweep.analysis.store.parquet import (
    KEYS,
    LAST_DATE_US,
    _check_range,
    _is_ours,
    encode,
    file_name,
)
from cudnn_sweep.analysis.store.schema import SCHEMA_VERSION, arrow_schema, to_table
from cudnn_sweep.analysis.store.store import Store
from cudnn_sweep.analysis.store.stored import has_lost, open_stored
from tests.analysis.conftest import make_pair, make_record


@pytest.mark.parametrize(
    ("name", "least", "most", "error"),
    [
        ("schema_version", 1, SCHEMA_VERSION, None),
        ("schema_version", SCHEMA_VERSION + 1, SCHEMA_VERSION + 1, StoreError),
        ("schema_version", 1, SCHEMA_VERSION + 1, StoreError),
        ("schema_version", None, None, None),
        ("started_at", 0, LAST_DATE_US, None),
        ("started_at", -1, 5, TornFileError),
        ("started_at", 0, LAST_DATE_US + 1, TornFileError),
        ("ended_at", -1, -1, TornFileError),
        ("ended_at", None, None, None),
        ("retry", -1, LAST_DATE_US + 1, None),
    ],
)
def test_versions_and_dates_have_a_range(
    name: str, least: int | None, most: int | None, error: type[Exception] | None
) -> None:
    if error is None:
        _check_range("x", name, least, most)
    else:
        with pytest.raises(error, match="has rows of schema|has a date outside"):
            _check_range("x", name, least, most)


def test_a_file_is_ours_if_it_has_every_key_once_and_no_column_of_another_type() -> None:
    own = arrow_schema()
    keys = [own.field(name) for name in KEYS]
    further = pa.field("of_a_later_version", pa.string())
    assert _is_ours(pa.schema(keys))
    assert _is_ours(pa.schema([*own, further]))
    assert not _is_ours(pa.schema(keys[1:]))
    assert not _is_ours(pa.schema([*keys, keys[0]]))
    assert not _is_ours(pa.schema([*keys, pa.field("block", pa.binary())]))
    assert not _is_ours(pa.schema([further]))


@pytest.mark.parametrize(
    ("rows", "compression", "groups"),
    [(1, "UNCOMPRESSED", 1), (2, "UNCOMPRESSED", 1), (3, "ZSTD", 2)],
)
def test_one_or_two_rows_are_not_compressed(
    monkeypatch: pytest.MonkeyPatch, rows: int, compression: str, groups: int
) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", 2)
    content = encode(to_table([make_record(trial_id=f"{number}") for number in range(rows)]))
    metadata = pq.ParquetFile(pa.BufferReader(content)).metadata
    assert (metadata.num_rows, metadata.num_row_groups) == (rows, groups)
    assert metadata.row_group(0).column(0).compression == compression


def test_a_file_is_named_after_its_footer_if_it_is_larger_than_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = encode(to_table([make_record()]))
    monkeypatch.setattr(parquet, "SMALL_BYTES", len(content))
    assert file_name("part", content).startswith("part.crc-")
    monkeypatch.setattr(parquet, "SMALL_BYTES", len(content) - 1)
    assert file_name("part", content).startswith("part.footer-")


@pytest.mark.parametrize("name", ["part-1.parquet", "trials/one.parquet"])
@pytest.mark.parametrize("key", ["status", "started_at"])
def test_a_row_without_a_key_is_damage_wherever_it_stands(
    store: Store, name: str, key: str
) -> None:
    table = to_table([make_record()])
    at = table.column_names.index(key)
    null = pa.nulls(1, table.schema.field(key).type)
    nullable = pa.field(key, null.type)
    store.folder.write(f"sweep=night-1/{name}", encode(table.set_column(at, nullable, null)))
    store.write(make_record(trial_id="whole"))
    assert [state.recorded for state in store.sweeps()] == [1]
    assert len(store.torn_files()) == 1
    assert len(store.snapshot().torn) == 1


@pytest.mark.parametrize("year", [1969, 1970])
@pytest.mark.parametrize("is_part", [True, False])
def test_a_date_before_1970_is_damage(store: Store, is_part: bool, year: int) -> None:
    record = make_record(started_at=datetime(year, 6, 1, tzinfo=UTC))
    if is_part:
        store.write_part("night-1", to_table([record]))
    else:
        store.write(record)
    assert len(store.snapshot().torn) == (year < 1970)


def test_sweeps_are_compacted_from_so_many_trials_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(*make_pair(0, 10.0, 9.0))
    (sweep_id,) = store.sweep_ids()
    for most, many in ((3, []), (2, [sweep_id]), (1, [sweep_id])):
        monkeypatch.setattr("cudnn_sweep.analysis.store.store.COMPACT_EVERY", most)
        assert store.many() == many
    store.compact_many()
    assert store.many() == []
    assert len(store.files()) == 1


def test_a_snapshot_has_lost_what_was_compacted(store: Store) -> None:
    store.write_part("night-1", to_table(make_pair(0, 10.0, 9.0)))
    snapshot = store.snapshot()
    assert not has_lost(store, snapshot)
    store.write_part("night-1", to_table(make_pair(1, 10.0, 9.0)))
    assert not has_lost(store, snapshot)
    store.folder.remove(next(path for path in store.files() if path in snapshot.parts.files[0]))
    assert has_lost(store, snapshot)


def test_damage_of_a_part_is_found_and_left_out(store: Store) -> None:
    store.write(make_record(trial_id="loose"))
    store.write_part("night-1", to_table([make_record(trial_id="part")]))
    assert store.snapshot().rows == 2
    assert not store.has_damage()
    (part,) = (path for path in store.files() if "/part-" in path)
    file = Path(store.location, part)
    file.write_bytes(file.read_bytes()[:-20])
    assert store.has_damage()
    after = store.snapshot()
    assert (after.rows, len(after.torn)) == (1, 1)


def test_parquet_files_below_a_prefix_are_listed_at_any_depth(tmp_path: Path) -> None:
    folder = LocalFolder(str(tmp_path))
    for name in ("a=1/x.parquet", "a=1/deep/y.parquet", "a=1/x.txt", "b/z.parquet"):
        folder.write(name, pa.py_buffer(b""))
    assert sorted(folder.files_below("a=")) == ["a=1/deep/y.parquet", "a=1/x.parquet"]
    assert folder.names("a=1", ".txt") == ["x.txt"]


def test_a_file_in_place_of_a_folder_has_no_names_unless_it_is_the_root(tmp_path: Path) -> None:
    LocalFolder(str(tmp_path)).write("file", pa.py_buffer(b""))
    assert LocalFolder(str(tmp_path)).names("file") == []
    assert LocalFolder(str(tmp_path)).names("nothing") == []
    assert LocalFolder(str(tmp_path / "nothing")).names("") == []
    with pytest.raises(StoreError, match=r"cannot list .*/file: Not a directory"):
        LocalFolder(str(tmp_path / "file")).names("")


@pytest.mark.parametrize(
    ("below", "is_found"), [("", True), ("1", True), ("1/2/3", True), ("1/2/3/4", False)]
)
def test_results_are_looked_for_a_few_folders_below(
    tmp_path: Path, below: str, is_found: bool
) -> None:
    (tmp_path / below / "sweep=june").mkdir(parents=True)
    if below and is_found:
        with pytest.raises(StoreError, match=f"folders below it do: --results {tmp_path}/{below}"):
            open_stored([str(tmp_path)])
    else:
        assert open_stored([str(tmp_path)]).sweep_ids() == ([] if below else ["june"])


def test_an_error_names_some_of_the_folders_with_results(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"{number}" / "sweep=june").mkdir(parents=True)
    with pytest.raises(StoreError) as raised:
        open_stored([str(tmp_path)])
    assert str(raised.value).count("--results") == stores.NAMED == 8
