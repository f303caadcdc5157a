"""Records made up for tests: `make_record` fills every column, `make_pair` makes a block's two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
from pydantic import TypeAdapter
from ruamel.yaml import YAML

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.engine.queries import Value, load_query
from cudnn_sweep.analysis.results.answers import AnswerRow
from cudnn_sweep.analysis.store.schema import (
    SCHEMA_VERSION,
    RunRecord,
    arrow_schema,
    axes,
    settings,
    to_table,
)
from cudnn_sweep.analysis.store.store import Store, open_store

MIDNIGHT = datetime(2025, 1, 1, tzinfo=UTC)

_HAS = YAML(typ="safe", pure=True).load((Path(__file__).parent / "data/record.yaml").read_text())
RECORD = TypeAdapter(RunRecord).validate_python(
    dict.fromkeys(arrow_schema().names)
    | {name: axis.usual for name, axis in axes().items()}
    | {name: setting.usual for name, setting in settings().items()}
    | {"schema_version": SCHEMA_VERSION, **_HAS}
)
(COLD,) = RECORD.cold or []
_, CONVOLUTION = RECORD.kernels or []


class Ask(Protocol):
    """The rows of a named question over the store, after these records were added to it."""

    def __call__(
        self, name: str, records: Iterable[RunRecord], **values: Value
    ) -> list[dict[str, Any]]: ...


class AskAbout(Protocol):
    """The rows about one of several cells in the answer to a named question."""

    def __call__(self, cell: str, name: str, **values: Value) -> list[dict[str, Any]]: ...


@contextmanager
def cells_together(folder: Path, cells: Mapping[str, Iterable[RunRecord]]) -> Iterator[AskAbout]:
    """One store, in which each cell has sweeps of its own: no cell's verdict is corrected for others.

    To plan a question takes longest: each is asked once about them all.
    """
    store = open_store(str(folder))
    rows = [
        in_cell(each, cell, sweep_id=f"{cell} {each.sweep_id}")
        for cell, records in cells.items()
        for each in records
    ]
    store.write_part("together", to_table(rows))
    with open_database(store) as database:
        answer = cache(lambda name, **values: database.ask(name, **values).to_pylist())

        def about(cell: str, name: str, **values: Value) -> list[dict[str, Any]]:
            return [row for row in answer(name, **values) if row["cell_id"] == cell]

        yield about


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "results"))


@pytest.fixture
def ask(store: Store) -> Ask:
    def asked(name: str, records: Iterable[RunRecord], **values: Value) -> list[dict[str, Any]]:
        store.write(*records)
        question = load_query(name)
        with open_database(store) as database:
            rows: list[dict[str, Any]] = database.query(
                question.sql, question.values(values)
            ).to_pylist()
        return rows

    return asked


@pytest.fixture
def filled_store(store: Store) -> Store:
    """Two sweeps: one compacted, closed loops and a failure; one loose, an open loop on a CPU."""
    return _filled(store)


@pytest.fixture(scope="session")
def kept_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """What `filled_store` has, for tests that only read it."""
    return _filled(open_store(str(tmp_path_factory.mktemp("kept"))))


@pytest.fixture(scope="session")
def answering_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store to which every question has an answer: cells that differ in one thing each."""
    store = open_store(str(tmp_path_factory.mktemp("answering")))
    cells: dict[str, dict[str, object]] = {
        "usual": {},
        "precise": {"precision": "fp32"},
        "turned": {"layout": "channels_last"},
        "elsewhere": {"gpu": "NVIDIA B200", "env_hash": "env-b"},
        "updated": {"torch": "2.12.0", "software_hash": "software-b"},
        "set": {"deterministic": True},
        "beside": {"software": "last_good", "software_hash": "software-0"},
    }
    for name, changes in cells.items():
        # neither another software nor another setting makes another cell
        cell_id = "cell-usual" if name in ("updated", "set", "beside") else f"cell-{name}"
        for block in range(3):
            for record in make_pair(block, 10.0 + block / 100, 12.0 - block / 100, **changes):
                later = record.started_at + timedelta(days=name == "updated")
                store.write(in_cell(record, name, cell_id=cell_id, started_at=later))
    for block in range(3):
        off, searching = make_pair(block, 10.0 + block / 100, 9.0)
        kept = replace(off, errata="ConvFwd:5", trial_id=f"kept-{block}", steady_wall_ms=9.1)
        for record in (off, searching, kept):
            store.write(in_cell(record, "frozen", cell_id="cell-frozen"))
    return _with_a_failure_and_a_cpu(store)


def _filled(store: Store) -> Store:
    for block in range(4):
        for record in make_pair(block, 10.0 + block / 100, 12.0 - block / 100):
            store.write(record)
    return _with_a_failure_and_a_cpu(store)


def _with_a_failure_and_a_cpu(store: Store) -> Store:
    store.write(
        make_record(trial_id="lost", block=9, benchmark=True, status="crash", message="boom")
    )
    store.compact("night-1")
    cpu: dict[str, object] = {"sweep_id": "night-2", "cell_id": "cell-cpu", "device": "cpu"}
    cpu |= {"compute_cache": None, "steady_device_ms": None, "loop_kind": "open"}
    for block in range(3):
        for record in make_pair(block, 5.0, 5.0 + block, **cpu):
            store.write(record)
    return store


def make_record(**changes: object) -> RunRecord:
    """A good trial with some columns changed."""
    return replace(RECORD, **changes)  # type: ignore[arg-type]


Row = TypeVar("Row", bound=AnswerRow)


def changed(row: Row, **columns: Any) -> Row:
    """An answer's row with other values in these columns."""
    return type(row)(**vars(row) | columns)


def make_pair(
    block: int, baseline_ms: float, candidate_ms: float, **changes: object
) -> list[RunRecord]:
    """A block of two good trials, benchmark off then on, with these steady wall and device times."""
    return [
        make_record(**_timed(block, False, baseline_ms, 30.0) | changes),
        make_record(**_timed(block, True, candidate_ms, 500.0) | changes),
    ]


def processes(name: str, times_ms: Iterable[float], **columns: object) -> list[RunRecord]:
    """Of one cell and config, a block each, with these wall times."""
    return [
        make_record(
            **{
                "trial_id": f"{name}-{block}",
                "attempt_id": f"{name}-{block}",
                "block": block,
                "steady_wall_ms": ms,
                "steady_device_ms": 0.9 * ms,
            }
            | columns
        )
        for block, ms in enumerate(times_ms)
    ]


def in_cell(record: RunRecord, cell_id: str, /, **changes: Any) -> RunRecord:
    """The trial as one of another cell, under ids of its own."""
    trial_id = f"{cell_id}-{record.trial_id}"
    own = {"cell_id": cell_id, "trial_id": trial_id, "attempt_id": trial_id}
    return replace(record, **own | changes)


def _timed(block: int, benchmark: bool, wall_ms: float, first_ms: float) -> dict[str, object]:
    started_at = MIDNIGHT + timedelta(minutes=block, seconds=10 * benchmark)
    return {
        "trial_id": f"trial-{block}-{benchmark}".lower(),
        "attempt_id": f"attempt-{block}-{benchmark}".lower(),
        "block": block,
        "replicate": block,
        "benchmark": benchmark,
        "steady_wall_ms": wall_ms,
        "steady_wall_samples_ms": [wall_ms] * 3,
        "steady_device_ms": 0.9 * wall_ms,
        "kernels_hash": "kernels-search" if benchmark else "kernels-heuristic",
        "logged_searches": int(benchmark),
        "cold": [replace(COLD, first_ms=first_ms)],
        "started_at": started_at,
        "ended_at": started_at + timedelta(seconds=2),
    }
