"""Stores results as Parquet files, in a folder or in an object store.

    sweep=<id>/trials/<trial_id>-<attempt_id>.<crc>.parquet   one trial
    sweep=<id>/trials/together-<unique>.<crc>.parquet         trials that were written together
    sweep=<id>/part-<unique>.<crc>.parquet                    many trials, after compaction

A trial may be stored several times, for example if a writer was killed. Readers use only the first
row of its highest retry.
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

SWEEP = "sweep="  # prefix of the name of a sweep's folder
TORN_SUFFIX = ".torn"
SAFE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")  # ids are parts of file names
MANY_PARTS = 10  # if there are this many small parts, they are merged
LARGE_PART = 5000  # a part with this many rows is not merged again
LISTINGS = 5  # attempts to read files, which a compaction may remove meanwhile
COMPACT_EVERY = 500  # number of new trials after which a sweep is compacted


def open_store(location: str) -> "Store":
    """Open the store at a path or URL. Raise StoreError if it is the folder of one sweep."""
    above, _, name = location.rstrip("/").rpartition("/")
    if name.startswith(SWEEP):
        option = f"--sweep-id {name.removeprefix(SWEEP)}"
        raise StoreError(f"{location} is the folder of one sweep; use {above or '.'} with {option}")
    return Store(open_folder(location))


class Store:
    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._reader = SnapshotReader(folder)
        # Written tables by sweep and path, so that a compaction does not have to read them.
        self._written: dict[str, dict[str, pa.Table]] = {}

    @property
    def location(self) -> str:
        return self.folder.location

    @property
    def stores(self) -> "Sequence[Store]":
        return [self]  # for code that also accepts `Joined`

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
        """Store trials durably, in a file for each sweep. Raise StoreError if that fails."""
        for sweep_id, group in groupby(records, key=lambda record: record.sweep_id):
            first, *others = group
            name = f"{check_id(first.trial_id)}-{check_id(first.attempt_id)}"
            name = f"together-{uuid.uuid4().hex}" if others else name
            table = to_table([first, *others])
            path = self._store(f"{_trials_folder(sweep_id)}/{name}", table)
            self._written.setdefault(sweep_id, {})[path] = table

    def compact(self, sweep_id: str) -> None:
        """Merge the small files of a sweep into a larger file, and remove the merged files."""
        written = self._written.pop(sweep_id, {})
        small = [path for path in self._paths(_sweep_folder(sweep_id)) if self._is_small(path)]
        merged = small if len(small) >= MANY_PARTS else []
        paths = [*self._paths(_trials_folder(sweep_id)), *merged]
        read = {path: written.get(path) or self._whole(path) for path in paths}
        batch = {path: table for path, table in read.items() if table is not None}
        if batch:
            self.write_part(sweep_id, _each_attempt(joined(list(batch.values()))))
        for path in batch:
            self.folder.remove(path)
        for folder in (_trials_folder(sweep_id), _sweep_folder(sweep_id)):
            self.folder.remove_stale_temporaries(folder)

    def many(self) -> list[str]:
        """Return the ids of sweeps with at least COMPACT_EVERY new trials from this Store."""
        return [
            sweep_id
            for sweep_id, files in [*self._written.items()]
            if sum(table.num_rows for table in [*files.values()]) >= COMPACT_EVERY
        ]

    def compact_many(self) -> None:
        """Compact the sweeps that `many` returns. Other threads may write at the same time."""
        for sweep_id in self.many():
            self.try_to_compact(sweep_id)

    def try_to_compact(self, sweep_id: str) -> None:
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
        """Return the state of each stored sweep, the newest first."""
        return sweep_states(self._counted(None))

    def sweep_ids(self) -> list[str]:
        return [name.removeprefix(SWEEP) for name in self._named_sweep() if self._is_sweep(name)]

    def strays(self) -> list[str]:
        """Return paths that begin with `sweep=` but are not sweeps. Readers skip them."""
        return [self.folder.shown(name) for name in self._named_sweep() if not self._is_sweep(name)]

    def _named_sweep(self) -> list[str]:
        return [name for name in self.folder.names("") if name.startswith(SWEEP)]

    def _is_sweep(self, name: str) -> bool:
        return bool(SAFE_ID.fullmatch(name.removeprefix(SWEEP))) and self.folder.is_folder(name)

    def snapshot(self, sweep_id: str | None = None) -> Snapshot:
        """Return the stored rows. Later queries raise FileNotFoundError if a file was compacted."""
        snapshot = self._retried(lambda: self._reader.read(self.files(sweep_id)))
        return snapshot if sweep_id else replace(snapshot, torn=(*snapshot.torn, *self.strays()))

    def has_damage(self) -> bool:
        """Return whether the last snapshot has a damaged file. The next snapshot leaves it out."""
        return self._reader.find_damage()

    def files(self, sweep_id: str | None = None) -> list[str]:
        """Return the paths of stored files. `sweep_id` is an id, a pattern, or None for all."""
        if sweep_id is None or "*" in sweep_id:
            sweep_ids = fnmatch.filter(self.sweep_ids(), sweep_id or "*")
        else:
            sweep_ids = [sweep_id]
        # loose files are listed first, because a compaction moves their rows to parts
        folders = [*map(_trials_folder, sweep_ids), *map(_sweep_folder, sweep_ids)]
        return [path for folder in folders for path in self._paths(folder)]

    def torn_files(self) -> list[str]:
        return [path for path in self.files() if is_damaged(self.folder, path)]

    def set_aside_torn(self) -> list[str]:
        """Rename torn files to `<name>.torn`, and return the new paths."""
        aside = []
        for path in self.torn_files():
            with suppress(FileNotFoundError):  # another launch has just renamed it
                self.folder.rename(path, path + TORN_SUFFIX)
                aside.append(self.folder.shown(path + TORN_SUFFIX))
        return aside

    def _counted(self, sweep_id: str | None) -> list[StoredTrial]:
        def count() -> list[StoredTrial]:
            return counting(self._reader.read(self.files(sweep_id)))

        try:
            return self._retried(count)
        except (OSError, pa.ArrowException) as error:  # a page of a file is damaged
            if self.has_damage():
                return self._retried(count)
            raise StoreError(f"cannot read {self.folder.shown()}: {error}") from error

    def _retried(self, read: Callable[[], Answer]) -> Answer:
        for _ in range(LISTINGS):
            with suppress(FileNotFoundError):
                return read()
        raise StoreError(f"{self.folder.shown()}: files vanished while they were read; try again")

    def _paths(self, folder: str) -> list[str]:
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
    """Return one row for each attempt, preferably the row with `ends_launch`."""
    rows = rows.sort_by("ends_launch")
    last = {attempt: at for at, attempt in enumerate(rows["attempt_id"].to_pylist())}
    return rows.take(pa.array(sorted(last.values()), pa.int64()))


def check_id(name: str) -> str:
    """Return `name`. Raise StoreError if a file name cannot contain it."""
    if not SAFE_ID.fullmatch(name):
        allowed = "letters, digits, '_', '-' and '.', not beginning with '-' or '.'"
        raise StoreError(f"id {name!r} cannot be part of a file name; allowed are {allowed}")
    return name
