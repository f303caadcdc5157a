"""Trials of a made-up sweep as rows, and a store of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from cudnn_sweep.analysis.engine.database import Database, open_database
from cudnn_sweep.analysis.engine.queries import Value
from cudnn_sweep.analysis.store import parquet
from cudnn_sweep.analysis.store.schema import SCHEMA_VERSION, arrow_schema, settings
from cudnn_sweep.analysis.store.store import open_store
from tests.studies.parts.noise import Array, Counts, Mask, Noise

STEADY_MS = 1.0

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)
EVERY_TRIAL: dict[str, Value | datetime] = {
    "schema_version": SCHEMA_VERSION,
    "sweep_id": "simulated",
    "launch_id": "simulated",
    "attempt_id": "simulated",
    "started_at": MIDNIGHT,
    "ended_at": MIDNIGHT,
    "retry": 0,
    "workload": "simulated",
    "regime": "fixed",
    "loop_kind": "closed",
    "twin": 0,
    "status": "ok",
    "convolutions": 1,
    "kernels_source": "graph",
    "device": "cuda",
    "gpu": "simulated",
    "gpu_uuid": "simulated",
    "slot": "simulated",
    "env_hash": "simulated",
    "software_hash": "simulated",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class MadeUp:
    """Cells of one noise."""

    noise: Noise
    effects: Array
    origins: Counts
    """Launch or host of cells × blocks."""
    off: Array
    """How far the effect is off there."""
    rows: pa.Table
    """Trials."""

    def truths(self, asked: Counts) -> Array:
        """The mean effect; of blocks of one launch and host the effect there."""
        later = np.arange(self.origins.shape[1]) >= asked[:, np.newaxis]
        is_one = ((self.origins == self.origins[:, :1]) | later).all(axis=1)
        truths: Array = self.effects + is_one * self.off[:, 0]
        return truths


def made_rows(
    times_ms: Array, cold_ms: Array, other: Mask | None = None, compute_cache: str = "warm"
) -> pa.Table:
    """Trials in the columns of `records`, from cells × blocks × (baseline, candidate).

    `other`: which candidates, of cells × blocks, chose other kernels than most.
    """
    cell, block, config = (axis.ravel() for axis in np.indices(times_ms.shape))
    others = 0 if other is None else np.repeat(other.ravel(), 2)
    trials = np.arange(times_ms.size)
    usual = {name: setting.usual for name, setting in settings().items()}
    columns = {
        name: pa.array([value], arrow_schema().field(name).type).take(np.zeros_like(trials))
        for name, value in (usual | EVERY_TRIAL).items()
    }
    columns |= {
        "trial_id": pa.array(trials).cast(pa.string()),
        "cell_id": pa.array(cell).cast(pa.string()),
        "block": pa.array(cell * times_ms.shape[1] + block),
        "benchmark": pa.array(config == 1),
        "compute_cache": pa.repeat(compute_cache, len(trials)),
        "kernels_hash": pa.array(config * (1 + others)).cast(pa.string()),
        "steady_wall_ms": pa.array(times_ms.ravel()),
        "cold": pa.ListArray.from_arrays(
            np.arange(len(trials) + 1, dtype=np.int32), _one_shape(cold_ms.ravel())
        ),
    }
    return pa.table(columns)


def in_turns(rows: pa.Table, turns_ms: Array, *, launch_bound: bool | None) -> pa.Table:
    """The same trials where they took turns: cells × blocks × (baseline, candidate) × rounds."""
    rounds = turns_ms.shape[-1]
    offsets = np.arange(len(rows) + 1, dtype=np.int32) * rounds
    numbers = np.resize(np.arange(rounds), turns_ms.size)
    columns = {
        "in_turns": pa.repeat(True, len(rows)),
        "launch_bound": pa.repeat(pa.scalar(launch_bound, pa.bool_()), len(rows)),
        "steady_wall_ms": pa.array(np.median(turns_ms, axis=-1).ravel()),
        "steady_wall_samples_ms": pa.ListArray.from_arrays(offsets, turns_ms.ravel()),
        "steady_wall_rounds": pa.ListArray.from_arrays(offsets, numbers),
    }
    others = {name: rows[name] for name in rows.column_names if name not in columns}
    return pa.table(others | columns)


@contextmanager
def open_rows(rows: pa.Table) -> Iterator[Database]:
    """A database over a store that holds these rows, as a table: to plan a verdict takes twice as long over files."""
    with TemporaryDirectory(prefix="sweep-") as folder:
        store = open_store(folder)
        store.folder.write("sweep=simulated/part-simulated.parquet", parquet.encode(rows))
        with open_database(store) as database:
            database.hold_rows()
            yield database


def _one_shape(first_ms: Array) -> pa.StructArray:
    shape = arrow_schema().field("cold").type.value_type
    empty = {field.name: pa.nulls(len(first_ms), field.type) for field in shape}
    return pa.StructArray.from_arrays(
        list((empty | {"first_ms": pa.array(first_ms)}).values()), fields=list(shape)
    )
