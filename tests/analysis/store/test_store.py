import os
import shutil
import stat
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.errors import StoreError
from cudnn_sweep.analysis.store import parquet
from cudnn_sweep.analysis.store.folder import Folder
from cudnn_sweep.analysis.store.schema import to_table
from cudnn_sweep.analysis.store.store import Store, open_store
from cudnn_sweep.analysis.store.stored import open_stored
from tests.analysis.conftest import make_pair, make_record


def test_an_empty_store_has_no_sweeps(store: Store) -> None:
    store.compact("night-1")
    assert store.sweeps() == []
    assert store.stored_trials("night-1") == {}
    assert store.set_aside_torn() == []


@pytest.mark.parametrize("location", ["good/sweep=june", "good/sweep=june/", "s3://b/sweep=june"])
def test_a_sweeps_own_folder_is_no_store(location: str) -> None:
    """A launch would make results inside results."""
    above = "good" if location.startswith("good") else "s3://b"
    told = f"is the folder of one sweep; use {above} with --sweep-id june"
    with pytest.raises(StoreError, match=told):
        open_store(location)


def test_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").touch()
    with pytest.raises(StoreError, match=r"c.yaml is a file, but results are a folder or a URL"):
        open_stored([str(tmp_path / "c.yaml")])


def test_sweeps_are_listed_newest_first_with_their_progress(store: Store) -> None:
    first = make_record(plan_trials=1)
    store.write(first)
    later = first.started_at + timedelta(days=1)
    store.write(make_record(sweep_id="night-2", started_at=later, env_hash="env-b"))
    newest, oldest = store.sweeps()
    assert (newest.sweep_id, newest.recorded, newest.finished) == ("night-2", 1, False)
    assert newest.env_hashes == {"env-b"}
    assert (oldest.sweep_id, oldest.finished, oldest.plan_hash) == ("night-1", True, "plan-a")


def test_the_highest_retry_counts_then_the_earliest_try(store: Store) -> None:
    ended_at = make_record().ended_at
    tries = {"late": (0, 9), "early": (0, 1), "retried-late": (1, 20), "retried": (1, 10)}
    for attempt_id, (retry, seconds) in tries.items():
        ended = ended_at + timedelta(seconds=seconds)
        store.write(make_record(attempt_id=attempt_id, retry=retry, ended_at=ended))
    assert store.stored_trials("night-1")["trial-0"].attempt_id == "retried"
    assert store.sweeps()[0].recorded == 1


def test_a_row_that_is_stored_again_as_its_launch_ends_replaces_itself(store: Store) -> None:
    record = make_record(ends_launch=False)
    for first, then in ((record, replace(record, ends_launch=True)),) * 2:
        store.write(first)
        store.write(then)
        assert store.stored_trials("night-1")["trial-0"].ends_launch
        with open_database(store) as database:
            (row,) = database.query("select ends_launch from records").to_pylist()
        assert row["ends_launch"]
        store.compact("night-1")
        rows = [parquet.read(store.folder, path) for path in store.files()]
        assert [table["ends_launch"].to_pylist() for table in rows] == [[True]] * len(rows)


@pytest.mark.slow
def test_many_small_parts_become_one_and_a_large_one_stays(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cudnn_sweep.analysis.store.store.MANY_PARTS", 3)
    monkeypatch.setattr("cudnn_sweep.analysis.store.store.LARGE_PART", 4)
    parts = []
    for number in range(8):
        _add_part(store, number)
        parts.append(len(store.files()))
    assert parts == [1, 2, 3, 1, 2, 3, 4, 2]
    assert len(store.stored_trials("night-1")) == 8


def test_trials_written_together_are_found_with_those_alone_loose_and_compacted(
    store: Store, tmp_path: Path
) -> None:
    """Each sweep's in a file of its own; a damaged one lacks all its trials, and no other's."""
    records = [make_record(trial_id=f"trial-{at}", attempt_id=f"attempt-{at}") for at in range(4)]
    night_2 = make_record(sweep_id="night-2")
    store.write(records[0])
    store.write(*records[1:3], night_2)
    rows = {path: parquet.read(store.folder, path).num_rows for path in store.files()}
    (together,) = (path for path, count in rows.items() if count == 2)
    assert sorted(rows.values()) == [1, 1, 2] and "sweep=night-1/trials/together-" in together
    assert any(path.startswith("sweep=night-1/trials/trial-0-attempt-0.crc-") for path in rows)
    loose = store.stored_trials("night-1")
    assert loose.keys() == {"trial-0", "trial-1", "trial-2"}
    before = set(store.files())
    store.write(records[3], replace(records[3], trial_id="trial-4"))
    (torn,) = set(store.files()) - before
    whole = (tmp_path / "results" / torn).read_bytes()
    (tmp_path / "results" / torn).write_bytes(whole[:-100])
    assert store.stored_trials("night-1") == loose
    reader = open_store(store.location)
    reader.compact("night-1")
    assert reader.stored_trials("night-1") == loose
    assert reader.torn_files() == [torn]


def test_files_that_the_compacting_process_wrote_are_not_read_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("own-0", "own-1", "own-2", "other")
    *own, other = (make_record(trial_id=name, attempt_id=name) for name in names)
    store.write(own[0])
    open_store(store.location).compact("night-1")
    store.write(*own[1:])
    open_store(store.location).write(other)
    reads: list[str] = []
    read = parquet.read

    def counted(folder: Folder, path: str, columns: list[str] | None = None) -> pa.Table:
        reads.append(path)
        return read(folder, path, columns)

    monkeypatch.setattr(parquet, "read", counted)
    store.compact("night-1")
    (path,) = [path for path in reads if "/trials/" in path]
    assert path.startswith("sweep=night-1/trials/other-other.")
    assert sorted(parquet.read(store.folder, path).num_rows for path in store.files()) == [1, 3]
    assert set(store.stored_trials("night-1")) == set(names)


@pytest.mark.parametrize("parts", [0, 2])
def test_killed_before_what_became_a_part_was_removed_nothing_is_lost_or_counted_twice(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, parts: int
) -> None:
    """Of two loose trials, or of two parts that were merged."""
    monkeypatch.setattr("cudnn_sweep.analysis.store.store.MANY_PARTS", 2)
    sweep = tmp_path / "results/sweep=night-1"
    for number in range(2):
        (_add_part if parts else _add)(store, number)
    shutil.copytree(sweep, tmp_path / "before")
    store.compact("night-1")
    shutil.copytree(tmp_path / "before", sweep, dirs_exist_ok=True)

    assert len(store.files()) == 3
    with open_database(store) as database:
        (found,) = database.query("select count(*) as trials from records").to_pylist()
    assert found == {"trials": 2} and store.sweeps()[0].recorded == 2
    store.compact("night-1")
    assert not any("/trials/" in path for path in store.files())
    assert store.sweeps()[0].recorded == 2


def test_a_question_is_answered_though_its_parts_are_merged_meanwhile(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cudnn_sweep.analysis.store.store.MANY_PARTS", 2)
    sql = "select sum(steady_wall_ms) as total_ms from records"
    for number in range(2):
        _add_part(store, number)
    with open_database(open_store(store.location)) as database:
        assert database.query(sql).to_pylist() == [{"total_ms": 20.0}]
        store.compact("night-1")
        assert database.query(sql).to_pylist() == [{"total_ms": 20.0}]


def test_two_launches_may_set_the_same_torn_file_aside(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(make_record())
    listed = store.files()
    torn = tmp_path / "results" / listed[0]
    torn.write_bytes(b"PAR1")
    monkeypatch.setattr(
        Store, "torn_files", lambda self: listed
    )  # both looked before either renamed
    assert store.set_aside_torn() == [f"{torn}.torn"]
    assert open_store(store.location).set_aside_torn() == []


def test_objects_are_opened_side_by_side_and_torn_ones_left_out(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for an answer over the network."""
    for record in make_pair(0, 10.0, 12.0):
        store.write(record)
    torn = store.files()[0]
    store.folder.write(torn, pa.py_buffer(b"PAR1"))
    both, read = Barrier(2), store.folder.read

    def answered_late(path: str) -> pa.Buffer:
        both.wait(timeout=10)
        return read(path)

    monkeypatch.setattr(store.folder, "is_local", False)
    monkeypatch.setattr(store.folder, "read", answered_late)
    found = store.snapshot()
    assert (found.rows, found.torn) == (1, (store.folder.shown(torn),))


def test_only_stale_temporary_files_are_removed(store: Store, tmp_path: Path) -> None:
    store.write(make_record())
    looks: dict[str, Callable[[], None]] = {
        "sweep=night-1/trials": lambda: store.compact("night-1"),
        "": store.check_writable,
    }
    for folder, look in looks.items():
        live, old = (tmp_path / "results" / folder / f".{name}.1.tmp" for name in "ab")
        for temporary in (live, old):
            temporary.write_bytes(b"half")
        os.utime(old, (time.time() - 3600,) * 2)
        look()
        assert live.exists() and not old.exists()
    assert len(store.stored_trials("night-1")) == 1


def test_a_write_reaches_the_disk_before_and_after_its_rename(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(make_record(trial_id="makes-the-folders"))
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def watched_fsync(descriptor: int) -> None:
        steps.append("sync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync file")
        fsync(descriptor)

    def watched_replace(path: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(Path, "replace", watched_replace)
    store.write(make_record())
    assert steps == ["sync file", "rename", "sync folder"]


def test_a_location_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = open_store(str(tmp_path / "file" / "results"))
    with pytest.raises(StoreError, match="results cannot be stored in .*file/results"):
        store.check_writable()


def test_checking_a_location_leaves_nothing_behind(store: Store, tmp_path: Path) -> None:
    store.check_writable()
    assert list((tmp_path / "results").iterdir()) == []


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("nowhere://bucket", "cannot be opened"),
        (
            "s3://bucket?no_such_option=1",
            "no_such_option could contain an access key.* the URL may have: region, scheme",
        ),
    ],
)
def test_an_unknown_url_is_refused_by_name(location: str, why: str) -> None:
    with pytest.raises(StoreError, match=why):
        open_store(location)


@pytest.mark.parametrize("sweep_id", ["../outside", "", ".hidden", "a/b"])
def test_an_id_that_would_leave_the_folder_is_refused(store: Store, sweep_id: str) -> None:
    with pytest.raises(StoreError, match="cannot be part of a file name"):
        store.write(make_record(sweep_id=sweep_id))


@pytest.mark.slow
def test_a_reader_misses_no_trial_while_another_process_compacts(store: Store) -> None:
    reader, seen = open_store(store.location), 0
    with ThreadPoolExecutor() as pool:
        writing = pool.submit(_write_and_compact, store)
        while not writing.done():
            found = len(reader.stored_trials("night-1"))
            assert found >= seen
            seen = found
        writing.result()
    assert len(reader.stored_trials("night-1")) == 60


def _add(store: Store, number: int) -> None:
    store.write(make_record(trial_id=f"trial-{number}", attempt_id=f"attempt-{number}"))


def _add_part(store: Store, number: int) -> None:
    _add(store, number)
    store.compact("night-1")


def _write_and_compact(store: Store) -> None:
    for number in range(60):
        _add(store, number)
        if number % 5 == 4:
            store.compact("night-1")


def test_a_file_that_another_program_wrote_without_statistics_is_read(
    store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "results" / "sweep=night-1"
    folder.mkdir(parents=True)
    pq.write_table(to_table([make_record()]), folder / "part-1.parquet", write_statistics=False)
    assert [sweep.sweep_id for sweep in store.sweeps()] == ["night-1"]
    assert store.torn_files() == []
