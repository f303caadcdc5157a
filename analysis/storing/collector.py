"""Records as they come: each is in a file at once, alone or with others, and files are compacted now and then."""

from collections import defaultdict
from threading import Lock

from cudnn_sweep.analysis.errors import StoreError
from cudnn_sweep.analysis.storing.schema import RunRecord
from cudnn_sweep.analysis.storing.store import Store

COMPACT_EVERY = 500  # trials: a query over 5,000 loose files takes 0.65 s, compacted 0.03 s


class Collector:
    """One thread may add while another compacts."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loose: dict[str, dict[str, list[RunRecord]]] = defaultdict(dict)
        self._lock = Lock()

    def write(self, record: RunRecord) -> None:
        """StoreError where it could not be made durable."""
        self.add(record)
        self.compact_many()

    def add(self, *records: RunRecord) -> None:
        """`write`, but the caller says when to compact: that takes as long as many records do."""
        files = self._store.write(*records)
        with self._lock:
            for path, together in files.items():
                self._loose[together[0].sweep_id][path] = together

    def has_many(self) -> bool:
        return bool(self._many())

    def compact_many(self) -> None:
        """Those sweeps that have many trials in loose files."""
        for sweep_id in self._many():
            self.compact(sweep_id)

    def compact(self, sweep_id: str) -> None:
        """Where it fails, loose files say the same, and whoever writes next compacts them."""
        with self._lock:
            written = self._loose.pop(sweep_id, {})
        try:
            self._store.compact(sweep_id, written)
        except (StoreError, OSError):
            pass

    def _many(self) -> list[str]:
        with self._lock:
            return [
                sweep_id
                for sweep_id, files in self._loose.items()
                if sum(map(len, files.values())) >= COMPACT_EVERY
            ]
