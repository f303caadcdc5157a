"""The results: Parquet files below a folder or a URL, one a finished trial, compacted in batches.

    sweep=<id>/trials/<trial_id>-<attempt_id>.<crc>.parquet   a trial, as soon as it has finished
    sweep=<id>/trials/together-<unique>.<crc>.parquet         trials that finished while another was written
    sweep=<id>/part-<unique>.<crc>.parquet                    many, once compacted

Killing a writer at any moment loses nothing and repeats at most rows that readers drop by key:
of several rows for one (sweep_id, trial_id) the highest retry counts, of these the earliest. A launch that ends
stores its last row again, with `ends_launch`.
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
from cudnn_sweep.analysis.storing import parquet
from cudnn_sweep.analysis.storing.folder import Folder, open_folder
from cudnn_sweep.analysis.storing.progress import StoredTrial, SweepState, counting, sweep_states
from cudnn_sweep.analysis.storing.schema import RunRecord, to_table
from cudnn_sweep.analysis.storing.snapshot import (
    TRIALS,
    Snapshot,
    SnapshotReader,
    is_damaged,
    joined,
)

Answer = TypeVar("Answer")

SWEEP = "sweep="  # begins the name of a sweep's folder
TORN_SUFFIX = ".torn"
SAFE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")  # ids become names of files
MANY_PARTS = 10  # small ones: then they are merged, for a query over 200 takes ten times as long
LARGE_PART = 5000  # rows of a part that is merged no more
LISTINGS = 5  # a compaction may remove listed files before they are read; it is over soon
COMPACT_EVERY = 500  # trials: a query over 5,000 loose files takes 0.65 s, compacted 0.03 s


def open_store(location: str) -> "Store":
    """The store in a local folder, or under a URL that pyarrow knows (s3://, gs://, ...). Raises StoreError for a
    sweep's own folder.
    """
    above, _, name = location.rstrip("/").rpartition("/")
    if name.startswith(SWEEP):
        option = f"--sweep-id {name.removeprefix(SWEEP)}"
        raise StoreError(
            f"{location} is one sweep of the results {above or '.'}: add {option} to these"
        )
    return Store(open_folder(location))


class Store:
    """Reads and writes one results location. A record is durable once `write` has returned."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._reader = SnapshotReader(folder)
        # By sweep, since its last compaction: to read them again takes ten times as long as the rest.
        self._written: dict[str, dict[str, pa.Table]] = {}

    @property
    def location(self) -> str:
        return self.folder.location

    @property
    def stores(self) -> "Sequence[Store]":
        """The stores that are read as one: this one alone."""
        return [self]

    def check_writable(self) -> None:
        """Raise StoreError where no file can be made and removed."""
        probe = f"writable-{uuid.uuid4().hex}.tmp"
        try:
            self.folder.write(probe, pa.py_buffer(b"sweep"))
            self.folder.remove(probe)
            self.folder.remove_stale_temporaries("")  # of a launch that was killed here
        except StoreError as error:
            raise StoreError(
                f"results cannot be stored in {self.folder.shown()}: {error}"
            ) from error

    def write(self, *records: RunRecord) -> None:
        """Store trials, those of a sweep in one file. StoreError where not all could be made durable."""
        for sweep_id, group in groupby(records, key=lambda record: record.sweep_id):
            together = list(group)
            table = to_table(together)
            content = parquet.encode(table)
            stem = f"{_trials_folder(sweep_id)}/{_loose_name(together)}"
            path = parquet.file_name(stem, content)
            self.folder.write(path, content)
            self._written.setdefault(sweep_id, {})[path] = table

    def compact(self, sweep_id: str) -> None:
        """Make one part of a sweep's loose files, and remove them once the part is durable.

        Many small parts become part of it.
        """
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
        """Sweeps of which this store has written many trials since their last compaction."""
        return [
            sweep_id
            for sweep_id, files in [*self._written.items()]
            if sum(table.num_rows for table in [*files.values()]) >= COMPACT_EVERY
        ]

    def compact_many(self) -> None:
        """May run in one thread while another writes."""
        for sweep_id in self.many():
            self.try_to_compact(sweep_id)

    def try_to_compact(self, sweep_id: str) -> None:
        """Where it fails, loose files say the same, and whoever writes next compacts them."""
        with suppress(StoreError, OSError):
            self.compact(sweep_id)

    def write_part(self, sweep_id: str, trials: pa.Table) -> None:
        """Store many trials of one sweep in one file."""
        content = parquet.encode(trials)
        stem = f"{_sweep_folder(sweep_id)}/part-{uuid.uuid4().hex}"
        self.folder.write(parquet.file_name(stem, content), content)

    def stored_trials(self, sweep_id: str) -> dict[str, StoredTrial]:
        """Every trial of a sweep that has a record, by trial_id."""
        return {trial.trial_id: trial for trial in self._counted(sweep_id)}

    def sweeps(self) -> list[SweepState]:
        """Every sweep that has a record, newest first."""
        return sweep_states(self._counted(None))

    def sweep_ids(self) -> list[str]:
        """Sweeps that have a folder, in the order of their names."""
        return [name.removeprefix(SWEEP) for name in self._named_sweep() if self._is_sweep(name)]

    def strays(self) -> list[str]:
        """What is called like a sweep's folder and is none, as a file manager's copy: it counts nowhere."""
        return [self.folder.shown(name) for name in self._named_sweep() if not self._is_sweep(name)]

    def _named_sweep(self) -> list[str]:
        return [name for name in self.folder.names("") if name.startswith(SWEEP)]

    def _is_sweep(self, name: str) -> bool:
        return bool(SAFE_ID.fullmatch(name.removeprefix(SWEEP))) and self.folder.is_folder(name)

    def snapshot(self, sweep_id: str | None = None) -> Snapshot:
        """What is stored now, of one sweep or of all; duplicates are still in it.

        Its parts are read later: FileNotFoundError where they were compacted by then.
        """
        snapshot = self._retried(lambda: self._reader.read(self.files(sweep_id)))
        return snapshot if sweep_id else replace(snapshot, torn=(*snapshot.torn, *self.strays()))

    def has_damage(self) -> bool:
        """Read every part whole that was scanned; whether one cannot be. The next snapshot lacks it."""
        return self._reader.find_damage()

    def files(self, sweep_id: str | None = None) -> list[str]:
        """Paths of the Parquet files: of one sweep, of those that a pattern as `night-*` matches, or of all.

        Loose files are listed before parts: what is compacted meanwhile is in a part by then.
        """
        if sweep_id is None or "*" in sweep_id:
            sweep_ids = fnmatch.filter(self.sweep_ids(), sweep_id or "*")
        else:
            sweep_ids = [sweep_id]
        loose = [path for each in sweep_ids for path in self._loose(each)]
        return loose + [path for each in sweep_ids for path in self._parts(each)]

    def torn_files(self) -> list[str]:
        """Paths of *.parquet files whose bytes are no Parquet that can be read."""
        return [path for path in self.files() if is_damaged(self.folder, path)]

    def set_aside_torn(self) -> list[str]:
        """Rename torn files to `<name>.torn`; returns where they lie now, for the caller to say."""
        aside = []
        for path in self.torn_files():
            try:
                self.folder.rename(path, path + TORN_SUFFIX)
            except FileNotFoundError:  # another launch just did, and says so
                continue
            aside.append(self.folder.shown(path + TORN_SUFFIX))
        return aside

    def _counted(self, sweep_id: str | None) -> list[StoredTrial]:
        def count() -> list[StoredTrial]:
            return counting(self._reader.read(self.files(sweep_id)))

        try:
            return self._retried(count)
        except (OSError, pa.ArrowException) as error:  # a page of a part, when it was scanned
            if self.has_damage():
                return self._retried(count)
            raise StoreError(f"cannot read {self.folder.shown()}: {error}") from error

    def _retried(self, read: Callable[[], Answer]) -> Answer:
        for _ in range(LISTINGS):
            try:
                return read()
            except FileNotFoundError:
                continue
        raise StoreError(
            f"{self.folder.shown()}: files kept vanishing while they were read; try again"
        )

    def _loose(self, sweep_id: str) -> list[str]:
        return self._parquet_files(_trials_folder(sweep_id))

    def _parts(self, sweep_id: str) -> list[str]:
        return self._parquet_files(_sweep_folder(sweep_id))

    def _parquet_files(self, folder: str) -> list[str]:
        return [f"{folder}/{name}" for name in self.folder.names(folder, ".parquet")]

    def _whole(self, path: str, columns: list[str] | None = None) -> pa.Table | None:
        """The file's rows; none where it is torn, or compacted by another process meanwhile."""
        try:
            return parquet.read(self.folder, path, columns)
        except (TornFileError, FileNotFoundError):
            return None

    def _is_small(self, path: str) -> bool:
        rows = self._whole(path, ["attempt_id"])
        return rows is not None and rows.num_rows < LARGE_PART


def _sweep_folder(sweep_id: str) -> str:
    return f"{SWEEP}{check_id(sweep_id)}"


def _trials_folder(sweep_id: str) -> str:
    return f"{_sweep_folder(sweep_id)}/{TRIALS}"


def _loose_name(together: list[RunRecord]) -> str:
    first = together[0]
    own = f"{check_id(first.trial_id)}-{check_id(first.attempt_id)}"
    return own if len(together) == 1 else f"together-{uuid.uuid4().hex}"


def _each_attempt(rows: pa.Table) -> pa.Table:
    """Each attempt once, as it was stored last: killed between writing a part and removing the files, a compaction
    leaves both.
    """
    rows = rows.sort_by("ends_launch")
    last = {attempt: at for at, attempt in enumerate(rows["attempt_id"].to_pylist())}
    return rows.take(pa.array(sorted(last.values()), pa.int64()))


def check_id(name: str) -> str:
    """The id itself; StoreError where it cannot name a file."""
    if not SAFE_ID.fullmatch(name):
        allowed = "letters, digits, '_', '-' and '.', not beginning with '-' or '.'"
        raise StoreError(f"id {name!r} cannot name a file: allowed are {allowed}")
    return name
