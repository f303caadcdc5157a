"""What the macros answer about cells that differ in everything a verdict rests on.

`python -m tests.analysis.engine.test_kept_cells` writes what they answer now.
"""

import json
import lzma
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from duckdb import DuckDBPyConnection as Connection

from cudnn_sweep.analysis.engine.database import COPIED_PAIRS
from cudnn_sweep.analysis.store.schema import RunRecord, to_table
from tests.analysis.conftest import COLD, in_cell, make_pair
from tests.analysis.one_macro import ask, fill_records, macros

KEPT = Path(__file__).with_name("kept_cells.json.xz")
CELLS = 48
SAME = 1e-6  # relative: CPUs differ in the last digits of a double

CONTRAST = "'benchmark', 'false', 'true'"
ASKED = {
    "contrast_verdicts": f"contrast_verdicts({CONTRAST}, 0.03, null, 90)",
    "jobs_weighed": (
        f"jobs_weighed({CONTRAST}, [1, 2000], null, 'container', 2, {60 / 1024}, 0.02, 0.1, null, null)"
    ),
    "outcomes_of": f"outcomes_of({CONTRAST}, null)",
    "processes": "night_processes(null, null)",
}


def records() -> Iterator[RunRecord]:
    """Draw each cell's blocks, and what they have in common."""
    generator = np.random.default_rng(3)

    def one_of(*values: Any) -> Any:
        return values[int(generator.integers(len(values)))]

    for number in range(CELLS):
        of_cell: dict[str, Any] = {
            "sweep_id": one_of("night-2025-01-01-lab", f"own-{number}-{number % 3}", "all-1"),
            "loop_kind": one_of("closed", "closed", "closed", "open"),
            "looks": one_of(None, [3, 5, 8]),
            "ends_launch": one_of(None, True, False),
            "in_turns": one_of(True, False),
            "execution": one_of(None, None, None, "compiled"),
            "steady_device_source": one_of("graph", "graph", "events"),
            "compute_cache": one_of("warm", "empty", "disabled"),
            "gpu_memory_bytes": one_of(None, 80 * 2**30),
            "software_hash": one_of("software-a", "software-b"),
            "listed_shapes": one_of(
                None, None, None, [{"shape": [1, 3], "count": 3}, {"shape": [2, 3], "count": 1}]
            ),
        }
        effect = float(one_of(0, 0.02, 0.03, 0.06, -0.06, -0.3, 0.3))
        scatter = float(one_of(0, 0.002, 0.02))
        choices = one_of(1, 1, 2, 2, 3, None)
        rare = one_of(0.0, 0.0, 0.2)
        bound = one_of(None, 0.0, 0.5, 1.0)
        hosts = one_of(1, 1, 2, 3)
        longer = one_of(0.5, 1.0, 3.0, 20.0)
        for block in range(int(one_of(1, 2, 3, 4, 5, 6, 8, 9))):
            drift = float(np.exp(0.05 * generator.standard_normal()))
            ratio = float(np.exp(effect + scatter * generator.standard_normal()))
            for record in make_pair(block, 10 * drift, 10 * drift * ratio):
                is_candidate = record.benchmark
                choice = 0 if choices is None else int(generator.integers(choices))
                ms = (record.steady_wall_ms or 0) * (1 + 0.04 * choice)
                rounds = int(one_of(5, 6, 6))
                noise = np.exp(0.003 * generator.standard_normal((2, rounds)))
                first_ms = ms * (longer if is_candidate else 2.0) * float(noise[0, 0])
                own: dict[str, Any] = {
                    "steady_wall_ms": ms,
                    "steady_device_ms": one_of(0.8, 0.95) * ms,
                    "steady_wall_samples_ms": (ms * noise[0]).tolist(),
                    "steady_device_samples_ms": (0.9 * ms * noise[1]).tolist(),
                    "steady_wall_rounds": list(range(rounds)),
                    "steady_device_rounds": list(range(rounds)),
                    "steady_iterations": rounds,
                    "kernels_hash": None if choices is None else f"{is_candidate} {choice}",
                    "launch_bound": None if bound is None else bool(generator.random() < bound),
                    "host": f"host-{block % hosts}",
                    "launch_id": f"launch-{block % hosts}",
                    "one_time_s": one_of(None, 0.1, 0.5),
                    "fingerprint": one_of("bits", "bits", f"{is_candidate}", None),
                    "bitwise_repeatable": one_of(True, True, False, None),
                    "relative_l2_error": one_of(None, 1e-3, 2e-3),
                    "steady_peak_reserved_bytes": int(one_of(2, 3, 60)) * 2**20,
                    "cold": [
                        replace(COLD, first_ms=first_ms / (1 + place), second_ms=ms + place)
                        for place in range(int(one_of(1, 2, 3)))
                    ],
                    "warnings": one_of([], [], [], ["power_capped"]),
                    "routes": one_of(["Cudnn"], [] if number % 5 == 0 else ["Cudnn"]),
                    "started_at": later(record.started_at, block),
                    "ended_at": later(record.ended_at, block),
                }
                if generator.random() < rare:
                    own |= one_of(
                        {"status": "out_of_memory", "message": "full\nof it"},
                        {"status": "error", "message": "broken"},
                        {"warnings": ["throttled"]},
                        {"warnings": ["shared_gpu"]},
                        {"slot": "elsewhere"},
                        {"compute_cache": "empty"},
                    )
                if own.get("status"):
                    own |= {"steady_wall_ms": None, "steady_device_ms": None, "kernels_hash": None}
                if of_cell["execution"] and is_candidate:
                    own |= {"cold_compile_ms": [1.0], "compiled_graphs": 1, "graph_breaks": ["x"]}
                yield in_cell(record, f"cell-{number:02}", **of_cell | own)


def edges() -> Iterator[RunRecord]:
    """Make cells that lie just at a limit, or have what few cells have."""
    full = 60 * 2**20  # bytes: as many as `jobs_weighed` allows in ASKED
    sides: dict[str, tuple[Any, Any]] = {  # of each block, both sides' columns
        "equal": ({}, {}),
        "zero": ({}, lambda block: {"steady_wall_ms": 0.0 if block == 1 else 11.0}),
        "zero before": (lambda block: {"steady_wall_ms": 0.0 if block == 1 else 11.0}, {}),
        "half bound": ({"launch_bound": True}, {"launch_bound": False}),
        "half capped": (lambda block: {"warnings": ["power_capped"] if block < 2 else []}, {}),
        "capped": (lambda block: {"warnings": ["power_capped"] if block < 3 else []}, {}),
        "full": ({}, {"steady_peak_reserved_bytes": full}),
        "over": ({}, {"steady_peak_reserved_bytes": full + 1}),
        "both over": (
            {"steady_peak_reserved_bytes": full + 1},
            {"steady_peak_reserved_bytes": full + 1},
        ),
        "one fails each": (
            lambda block: FAILED if block == 0 else {},
            lambda block: FAILED if block == 1 else {},
        ),
        "candidate fails": ({}, FAILED),
        "baseline fails": (FAILED, {}),
        "two fail": ({}, lambda block: FAILED if block < 2 else {}),
        "memory": ({"gpu_memory_bytes": 40 * 2**30}, {"gpu_memory_bytes": 80 * 2**30}),
        "no shape": ({"cold": []}, lambda block: {"cold": []} if block else {}),
        "bits": (
            lambda block: {"fingerprint": "a" if block < 2 else None},
            lambda block: {"fingerprint": "a" if block == 1 else "b"},
        ),
        "rarely": ({}, lambda block: {"kernels_hash": "other" if block == 3 else "usual"}),
        "resumed with more looks": ({"ends_launch": False, "looks": [3, 8]}, {"looks": [3, 5, 8]}),
    }
    for name, both in sides.items():
        for block in range(4):
            for record, columns in zip(make_pair(block, 11.0, 11.0), both, strict=True):
                own = columns(block) if callable(columns) else columns
                yield in_cell(record, name, **{"sweep_id": "edges", "fingerprint": "same"} | own)


FAILED: dict[str, Any] = {
    "status": "out_of_memory",
    "message": "full",
    "steady_wall_ms": None,
    "steady_device_ms": None,
    "kernels_hash": None,
}


def later(at: datetime, block: int) -> datetime:
    return at + timedelta(days=block % 2)


def answer(connection: Connection, macro: str) -> list[dict[str, Any]]:
    rows = ask(connection, f"from {ASKED[macro]} as answer order by all")
    found: list[dict[str, Any]] = json.loads(json.dumps([short(row) for row in rows], default=str))
    return found


def short(row: dict[str, Any]) -> dict[str, Any]:
    """Leave out nulls, and what only names the row's place."""
    return {
        name: float(f"{value:.9g}") if isinstance(value, float) else value
        for name, value in row.items()
        if value is not None and not name.endswith("_hash")
    }


def filled(connection: Connection) -> Connection:
    """Fill in the records, and hold the contrast's pairs: two macros read them."""
    fill_records(connection, to_table([*records(), *edges()]))
    connection.execute(f"create temp table held as from block_pairs({CONTRAST}, null)")
    connection.execute(COPIED_PAIRS.replace("copied_pairs", "held"))
    return connection


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lzma.decompress(KEPT.read_bytes()))
    return found


@pytest.fixture(scope="module")
def drawn() -> Iterator[Connection]:
    with macros() as connection:
        yield filled(connection)


@pytest.mark.parametrize("macro", ASKED)
def test_each_cell_is_answered_as_kept(drawn: Connection, kept: dict[str, Any], macro: str) -> None:
    found = answer(drawn, macro)
    assert len(found) == len(kept[macro])
    for row, before in zip(found, kept[macro], strict=True):
        assert row == {
            name: pytest.approx(value, rel=SAME, abs=1e-12) if isinstance(value, float) else value
            for name, value in before.items()
        }


def test_kept_cells_meet_every_verdict(kept: dict[str, Any]) -> None:
    verdicts = {row["wall_verdict"] for row in kept["contrast_verdicts"]}
    assert verdicts >= {"helps", "hurts", "equivalent", "inconclusive", "undecided"}
    advice = {row["advice"] for row in kept["jobs_weighed"]}
    assert advice >= {"on", "off", "does not fit", "undecided"}


if __name__ == "__main__":
    with macros() as connection:
        filled(connection)
        answers = {macro: answer(connection, macro) for macro in ASKED}
    KEPT.write_bytes(lzma.compress(json.dumps(answers).encode(), preset=9))
    for macro, rows in answers.items():
        print(macro, len(rows))
