"""The results: Parquet files below a folder or a URL, one for each finished trial, later merged into parts.

    sweep=<id>/trials/<trial_id>-<attempt_id>.<crc>.parquet   a trial, as soon as it has finished
    sweep=<id>/trials/together-<unique>.<crc>.parquet         trials that finished while a file was written
    sweep=<id>/part-<unique>.<crc>.parquet                    many trials, once compacted

Killing a writer at any moment loses no stored row, but may repeat rows. Readers use one row for
each (sweep_id, trial_id): the earliest row of the highest retry. When a launch ends, it stores its
last row again, with `ends_launch`.
"""

import fnmatch
import re
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import TypeVar

import pyarrow as pa

from cudnn_sweep.analysis.errors import StoreError, TornFileError
from cudnn_sweep.analysis.store import parquet
from cudnn_sweep.analysis.store.folder import Folder, open_folder
from cudnn_sweep.analysis.store.progress import StoredTrial, SweepState, counting, sweep_states
from cudnn_sweep.analysis.store.schema import RunRecord, to_table
from cudnn_sweep.analysis.store.snapshot import TRIALS, Snapshot, SnapshotReader, is_damaged, joined

Answer = TypeVar("Answer")

SWEEP = "sweep="  # begins the name of a sweep's folder
TORN_SUFFIX = ".torn"
SAFE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")  # ids become names of files
MANY_PARTS = 10  # from so many on, small parts are merged: a query over 200 takes ten times as long
LARGE_PART = 5000  # rows from which a part is no longer merged
LISTINGS = 5  # attempts: a compaction may remove listed files before they are read, but ends soon
COMPACT_EVERY = 500  # trials: a query over 5,000 loose files takes 0.65 s, compacted 0.03 s


def open_store(location: str) -> "Store":
    """Return the store at a path or URL. Raises StoreError for the folder of one sweep."""
    above, _, name = location.rstrip("/").rpartition("/")
    if name.startswith(SWEEP):
        option = f"--sweep-id {name.removeprefix(SWEEP)}"
        raise StoreError(f"{location} is the folder of one sweep: use {above or '.'} with {option}")
    return Store(open_folder(location))


class Store:
    """One results location, to read and write. A record is durable once `write` has returned."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._reader = SnapshotReader(folder)
        # Tables by sweep and path, for the compaction: reading takes ten times as long as the rest.
        self._written: dict[str, dict[str, pa.Table]] = {}

    @property
    def location(self) -> str:
        return self.folder.location

    @property
    def stores(self) -> "Sequence[Store]":
        return [self]  # as `Joined` returns all of its stores

    def check_writable(self) -> None:
        probe = f"writable-{uuid.uuid4().hex}.tmp"
        try:
            self.folder.write(probe, pa.py_buffer(b"sweep"))
            self.folder.remove(probe)
            self.folder.remove_stale_temporaries("")  # left by a launch that was killed
        except StoreError as error:
            raise StoreError(
                f"results cannot be stored in {self.folder.shown()}: {error}"
            ) from error

    def write(self, *records: RunRecord) -> None:
        """Store trials in a file for each sweep. Raise StoreError unless every record is durable."""
        for sweep_id, group in groupby(records, key=lambda record: record.sweep_id):
            first, *others = group
            name = f"{check_id(first.trial_id)}-{check_id(first.attempt_id)}"
            name = f"together-{uuid.uuid4().hex}" if others else name
            table = to_table([first, *others])
            path = self._store(f"{_trials_folder(sweep_id)}/{name}", table)
            self._written.setdefault(sweep_id, {})[path] = table

    def compact(self, sweep_id: str) -> None:
        """Merge a sweep's loose files into a part, then remove the merged files. Merge small parts,
        too, if there are at least MANY_PARTS of them."""
        written = self._written.pop(sweep_id, {})
        small = [path for path in self._parts(sweep_id) if self._is_small(path)]
        merged = small if len(small) >= MANY_PARTS else []
        paths = [*self._loose(sweep_id), *merged]
        read = {path: written.get(path) or self._whole(path) for path in paths}
        batch = {path: table for path, table in read.items() if table is not None}
        if batch:
            self.write_part(sweep_id, _each_attempt(joined(list(batch.values()))))
        for path in batch:
            self.folder.remove(path)
        for folder in (_trials_folder(sweep_id), _sweep_folder(sweep_id)):
            self.folder.remove_stale_temporaries(folder)

    def many(self) -> list[str]:
        """Return ids of sweeps for which this Store has COMPACT_EVERY or more trials to compact."""
        return [
            sweep_id
            for sweep_id, files in [*self._written.items()]
            if sum(table.num_rows for table in [*files.values()]) >= COMPACT_EVERY
        ]

    def compact_many(self) -> None:
        """Compact the sweeps that `many` returns; another thread may write meanwhile."""
        for sweep_id in self.many():
            self.try_to_compact(sweep_id)

    def try_to_compact(self, sweep_id: str) -> None:
        """Compact a sweep if possible. Otherwise its loose files stay for the next writer."""
        with suppress(StoreError, OSError):
            self.compact(sweep_id)

    def write_part(self, sweep_id: str, trials: pa.Table) -> None:
        self._store(f"{_sweep_folder(sweep_id)}/part-{uuid.uuid4().hex}", trials)

    def _store(self, stem: str, trials: pa.Table) -> str:
        content = parquet.encode(trials)
        path = parquet.file_name(stem, content)
        self.folder.write(path, content)
        return path

    def stored_trials(self, sweep_id: str) -> dict[str, StoredTrial]:
        return {trial.trial_id: trial for trial in self._counted(sweep_id)}

    def sweeps(self) -> list[SweepState]:
        """Return the states of sweeps with a record, the newest first."""
        return sweep_states(self._counted(None))

    def sweep_ids(self) -> list[str]:
        return [name.removeprefix(SWEEP) for name in self._named_sweep() if self._is_sweep(name)]

    def strays(self) -> list[str]:
        """Return the paths named `sweep=...` that are not a sweep's folder, such as a copy of one.
        Readers skip these paths."""
        return [self.folder.shown(name) for name in self._named_sweep() if not self._is_sweep(name)]

    def _named_sweep(self) -> list[str]:
        return [name for name in self.folder.names("") if name.startswith(SWEEP)]

    def _is_sweep(self, name: str) -> bool:
        return bool(SAFE_ID.fullmatch(name.removeprefix(SWEEP))) and self.folder.is_folder(name)

    def snapshot(self, sweep_id: str | None = None) -> Snapshot:
        """Return the rows stored now, of one sweep or of all sweeps.

        A part's rows are read only when a query runs. The query raises FileNotFoundError if the
        part was compacted in the meantime.
        """
        snapshot = self._retried(lambda: self._reader.read(self.files(sweep_id)))
        return snapshot if sweep_id else replace(snapshot, torn=(*snapshot.torn, *self.strays()))

    def has_damage(self) -> bool:
        """Return whether the last snapshot has a damaged part. Later snapshots omit such parts."""
        return self._reader.find_damage()

    def files(self, sweep_id: str | None = None) -> list[str]:
        """Return the files' paths. `sweep_id` is one sweep, a pattern (`night-*`), or None for all.

        Loose files are listed before parts. So rows that a compaction moves are not missed.
        """
        if sweep_id is None or "*" in sweep_id:
            sweep_ids = fnmatch.filter(self.sweep_ids(), sweep_id or "*")
        else:
            sweep_ids = [sweep_id]
        loose = [path for sweep_id in sweep_ids for path in self._loose(sweep_id)]
        return loose + [path for sweep_id in sweep_ids for path in self._parts(sweep_id)]

    def torn_files(self) -> list[str]:
        return [path for path in self.files() if is_damaged(self.folder, path)]

    def set_aside_torn(self) -> list[str]:
        """Rename torn files to `<name>.torn`; return the new paths, for the caller to print."""
        aside = []
        for path in self.torn_files():
            with suppress(FileNotFoundError):  # another launch just renamed it, and reports it
                self.folder.rename(path, path + TORN_SUFFIX)
                aside.append(self.folder.shown(path + TORN_SUFFIX))
        return aside

    def _counted(self, sweep_id: str | None) -> list[StoredTrial]:
        def count() -> list[StoredTrial]:
            return counting(self._reader.read(self.files(sweep_id)))

        try:
            return self._retried(count)
        except (OSError, pa.ArrowException) as error:  # a damaged page, found by the scan
            if self.has_damage():
                return self._retried(count)
            raise StoreError(f"cannot read {self.folder.shown()}: {error}") from error

    def _retried(self, read: Callable[[], Answer]) -> Answer:
        for _ in range(LISTINGS):
            with suppress(FileNotFoundError):
                return read()
        raise StoreError(f"{self.folder.shown()}: files vanished while they were read; try again")

    def _loose(self, sweep_id: str) -> list[str]:
        return self._parquet_files(_trials_folder(sweep_id))

    def _parts(self, sweep_id: str) -> list[str]:
        return self._parquet_files(_sweep_folder(sweep_id))

    def _parquet_files(self, folder: str) -> list[str]:
        return [f"{folder}/{name}" for name in self.folder.names(folder, ".parquet")]

    def _whole(self, path: str, columns: list[str] | None = None) -> pa.Table | None:
        with suppress(TornFileError, FileNotFoundError):
            return parquet.read(self.folder, path, columns)
        return None

    def _is_small(self, path: str) -> bool:
        rows = self._whole(path, ["attempt_id"])
        return rows is not None and rows.num_rows < LARGE_PART


def _sweep_folder(sweep_id: str) -> str:
    return f"{SWEEP}{check_id(sweep_id)}"


def _trials_folder(sweep_id: str) -> str:
    return f"{_sweep_folder(sweep_id)}/{TRIALS}"


def _each_attempt(rows: pa.Table) -> pa.Table:
    """Return one row for each attempt. Of several rows, return the row with `ends_launch`."""
    rows = rows.sort_by("ends_launch")
    last = {attempt: at for at, attempt in enumerate(rows["attempt_id"].to_pylist())}
    return rows.take(pa.array(sorted(last.values()), pa.int64()))


def check_id(name: str) -> str:
    """Return `name`. Raise StoreError if a file's name cannot contain it."""
    if not SAFE_ID.fullmatch(name):
        allowed = "letters, digits, '_', '-' and '.', not beginning with '-' or '.'"
        raise StoreError(f"id {name!r} cannot name a file: allowed are {allowed}")
    return name
