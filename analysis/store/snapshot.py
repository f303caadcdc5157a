"""Reads stored rows as Arrow data, from loose files of a few trials and from parts of many."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds

from cudnn_sweep.analysis.errors import TornFileError
from cudnn_sweep.analysis.store import parquet
from cudnn_sweep.analysis.store.folder import Folder
from cudnn_sweep.analysis.store.schema import arrow_schema

TRIALS = "trials"  # name of the folder of loose files
OPENED_TOGETHER = 16  # number of objects that are opened in parallel
Opened: TypeAlias = pa.Table | ds.ParquetFileFragment


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """All rows that were stored at one moment. A trial may have several rows."""

    loose: pa.Table
    parts: ds.FileSystemDataset
    torn: tuple[str, ...]
    """Paths of damaged files, whose rows are missing."""

    @property
    def rows(self) -> int:
        parts = self.parts.get_fragments()  # their footers are already in memory
        return int(self.loose.num_rows + sum(part.metadata.num_rows for part in parts))

    def table(self, columns: list[str]) -> pa.Table:
        return pa.concat_tables([self.loose.select(columns), self.parts.to_table(columns)])


class SnapshotReader:
    """Reads the files of a folder, and keeps the rows of loose files in memory."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._files: dict[str, Opened] = {}
        self._damaged: set[str] = set()

    def read(self, paths: list[str]) -> Snapshot:
        """Read the rows of files. Raise FileNotFoundError if a file no longer exists."""
        files = dict(zip(paths, self._opened(paths), strict=True))
        self._files = {path: file for path, file in files.items() if file is not None}
        loose = [file for file in files.values() if isinstance(file, pa.Table)]
        parts = [file for file in files.values() if isinstance(file, ds.ParquetFileFragment)]
        torn = [self._folder.shown(path) for path, file in files.items() if file is None]
        rows = joined(loose).select(arrow_schema().names)
        return Snapshot(loose=rows, parts=scanned(parts, self._folder), torn=tuple(torn))

    def _opened(self, paths: list[str]) -> list[Opened | None]:
        if self._folder.is_local:
            return [self._file(path) for path in paths]
        with ThreadPoolExecutor(OPENED_TOGETHER) as pool:
            return list(pool.map(self._file, paths))

    def _file(self, path: str) -> Opened | None:
        """Return the rows of a loose file, or an opened part. Return None if it is damaged."""
        if path in self._damaged or path in self._files:
            return self._files.get(path)
        look = parquet.read if f"/{TRIALS}/" in path else parquet.open_fragment
        try:
            return self._files.setdefault(path, look(self._folder, path))
        except TornFileError:
            return None

    def find_damage(self) -> bool:
        """Return whether the last snapshot has a damaged part. The next snapshot leaves it out."""
        parts = [path for path, file in self._files.items() if not isinstance(file, pa.Table)]
        damaged = {path for path in parts if is_damaged(self._folder, path)}
        self._damaged |= damaged
        for path in damaged:
            del self._files[path]
        return bool(damaged)


def is_damaged(folder: Folder, path: str) -> bool:
    try:
        return parquet.is_torn(folder, path)
    except FileNotFoundError:  # removed by a compaction
        return False


def scanned(
    fragments: list[ds.ParquetFileFragment], folder: Folder | None = None
) -> ds.FileSystemDataset:
    filesystem = folder.filesystem if folder else None
    return ds.FileSystemDataset(fragments, _nullable_schema(), parquet.FORMAT, filesystem)


def joined(tables: list[pa.Table]) -> pa.Table:
    """Concatenate tables. Columns that a table lacks become null."""
    empty = _nullable_schema().empty_table()
    return pa.concat_tables([empty, *tables], promote_options="default") if tables else empty


@cache
def _nullable_schema() -> pa.Schema:
    return pa.schema([pa.field(field.name, field.type) for field in arrow_schema()])
