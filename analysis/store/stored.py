"""Opens one or more locations of results."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from cudnn_sweep.analysis.errors import StoreError
from cudnn_sweep.analysis.store.location import Location
from cudnn_sweep.analysis.store.snapshot import Snapshot, scanned
from cudnn_sweep.analysis.store.store import SWEEP, Store, open_store

DEPTH = 3  # levels of folders below a location that are searched for stores
NAMED = 8  # largest number of stores that an error names


class Joined:
    """Several stores that are read as one."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self.stores = stores

    def sweep_ids(self) -> list[str]:
        return sorted({sweep_id for store in self.stores for sweep_id in store.sweep_ids()})

    def snapshot(self, sweep_id: str | None = None) -> Snapshot:
        snapshots = [store.snapshot(sweep_id) for store in self.stores]
        return Snapshot(
            loose=pa.concat_tables([member.loose for member in snapshots]),
            parts=scanned([part for member in snapshots for part in member.parts.get_fragments()]),
            torn=tuple(torn for member in snapshots for torn in member.torn),
        )


Stored: TypeAlias = Store | Joined


def open_stored(locations: Sequence[str]) -> Stored:
    """Open locations as one. Raise StoreError if one is missing, a file, or only above results."""
    stores = [_open(location) for location in locations]
    return stores[0] if len(stores) == 1 else Joined(stores)


def shown(stored: Stored) -> str:
    return " and ".join(store.folder.shown() for store in stored.stores)


def has_lost(stored: Stored, snapshot: Snapshot) -> bool:
    """Return whether a file of `snapshot.parts` no longer exists."""
    present = {store.folder.full(path) for store in stored.stores for path in store.files()}
    return not present.issuperset(snapshot.parts.files)


def _open(location: str) -> Store:
    store = open_store(location)
    where = Location(location)
    if not where.is_local:
        return store
    if where.folder.is_file():
        raise StoreError(f"{store.folder.shown()} is a file, but results are a folder or a URL")
    if not where.folder.is_dir():
        raise StoreError(
            f"there is no folder {store.folder.shown()}; choose another with --results, or measure "
            "with `sweep advise` or `sweep launch`"
        )
    if not store.sweep_ids() and (below := _stores_below(where.folder)):
        options = " ".join(f"--results {folder}" for folder in below[:NAMED])
        raise StoreError(
            f"{store.folder.shown()} contains no results, but folders below it do: {options}"
        )
    return store


def _stores_below(folder: Path) -> list[Path]:
    patterns = ["*/" * depth + f"{SWEEP}*" for depth in range(1, DEPTH + 1)]
    return sorted({sweep.parent for pattern in patterns for sweep in folder.glob(pattern)})
