"""Macros over few rows: medians and words of a night, choices of trials, blocks that resemble each other."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from duckdb import DuckDBPyConnection as Connection

from cudnn_sweep.analysis.store.schema import settings
from tests.analysis.one_macro import ask, fill, fill_records, macros


@pytest.fixture
def connection() -> Iterator[Connection]:
    with macros() as opened:
        yield opened


def test_a_night_has_a_median_or_a_word_unless_nothing_was_measured(
    connection: Connection,
) -> None:
    cases = {
        "median_of(x) from (values (null::double)) as t (x)": None,
        "median_of(x) from (values (1.0), (null), (4.0)) as t (x)": (2.5, None, 2),
        "median_of(x) from (values (3)) as t (x)": (3.0, None, 1),
        "most_common(x) from (values (null::text)) as t (x)": None,
        "most_common(x) from (values ('b'), ('a'), ('b')) as t (x)": (None, "b", 3),
        "most_common(x) from (values ('b'), ('a'), (null)) as t (x)": (None, "a", 2),
    }
    for sql, expected in cases.items():
        (row,) = ask(connection, f"select {sql.replace(' from', ' as found from', 1)}")
        found = row["found"] and tuple(row["found"].values())
        assert found == expected, sql


def test_a_trial_has_the_choices_of_its_own_record(connection: Connection) -> None:
    def record(sweep_id: str, trial_id: str) -> dict[str, Any]:
        name = f"{sweep_id} {trial_id}"
        kernels = [{"name": name, "kind": "convolution"}, {"name": "other", "kind": "other"}]
        choices = [{"engine": f"engine {name}"}]
        ids = {"sweep_id": sweep_id, "trial_id": trial_id}
        return ids | {"kernels": kernels, "logged_choices": choices}

    fill_records(connection, [record(s, t) for s in "st" for t in "ab"])
    trial = {"sweep_id": "s", "trial_id": "a"}
    fill(connection, "wanted_trials", [{"trial": trial}, {"trial": trial}])
    (row,) = ask(connection, "from choices_of('wanted_trials')")
    assert (row["trial"], row["kernels"], row["engines"]) == (trial, ["s a"], ["engine s a"])


def test_the_processes_of_a_night_are_those_of_its_trials_without_twins(
    connection: Connection,
) -> None:
    night, fresh = "night-2026-11-02-lab", "confirm-2026-11-02-lab"

    def record(trial_id: str, sweep_id: str = night, **columns: Any) -> dict[str, Any]:
        usual: dict[str, Any] = {"status": "ok", "twin": 0, "benchmark": True, "warnings": []}
        usual |= {"cold": [{"first_ms": 2.0}, {"first_ms": 3.0}], "steady_wall_ms": 5.0}
        usual |= {"cell_id": trial_id, "compute_cache": "warm", "errata": None}
        return usual | {"trial_id": trial_id, "sweep_id": sweep_id} | columns

    bits = {"cell_id": "bits", "kernels_hash": "k", "env_hash": "e", "software_hash": "s"}
    began = [datetime(2026, 11, 2, hour, tzinfo=UTC) for hour in range(4)]
    fill_records(
        connection,
        [
            record("usual"),
            record("fresh", fresh),
            record("twin", twin=1),
            record("other", "own sweep"),
            record("later", "night-2026-11-03-lab"),
            record("elsewhere", "night-2026-11-02-home"),
            record("empty", compute_cache="empty"),
            record("doubtful", warnings=["throttled"]),
            record("failed", status="error", warnings=["throttled"], bitwise_repeatable=True),
            record("b0", **bits, started_at=began[0], fingerprint="x", bitwise_repeatable=True),
            record("b1", **bits, started_at=began[1], fingerprint="y", bitwise_repeatable=True),
            record("b2", **bits, started_at=began[2], fingerprint="x", bitwise_repeatable=False),
            record("b3", **bits, started_at=began[3], fingerprint="x", bitwise_repeatable=None),
            record("no kernels", fingerprint="x", bitwise_repeatable=True),
        ],
    )
    rows = ask(
        connection,
        "select cell_id, steady_wall, cold_empty, cold_warm, is_fresh, night, repeats, failure"
        " from night_processes('lab', '2026-11-02') order by cell_id, repeats",
    )
    found = {row["cell_id"]: row for row in rows if row["cell_id"] != "bits"}
    assert set(found) == {"usual", "fresh", "empty", "doubtful", "failed", "no kernels"}
    assert {row["night"] for row in rows} == {night}
    assert [name for name, row in found.items() if row["is_fresh"]] == ["fresh"]
    times = ("steady_wall", "cold_empty", "cold_warm")
    assert tuple(found["usual"][name] for name in times) == (5.0, None, 5.0)
    assert tuple(found["empty"][name] for name in times) == (5.0, 5.0, None)
    for name in ("doubtful", "failed"):
        assert {found[name][time] for time in times} == {None}
    assert (found["failed"]["failure"], found["failed"]["repeats"]) == ("error", None)
    assert found["no kernels"]["repeats"] == "repeat"
    repeats = [row["repeats"] for row in rows if row["cell_id"] == "bits"]
    assert repeats == ["differ between processes", "differ within a process", "repeat", None]


@pytest.fixture
def resembling() -> Iterator[Connection]:
    with macros({"configured(flag, of_sweep, raced_out := false)": "trials"}) as opened:
        fill_records(opened, [])
        yield opened


def blocks(sweep_id: str, logs: list[float], cell: str = "x", **columns: Any) -> Any:
    """Two trials a block; the later config's time over the first one's has these logarithms."""
    usual = {"twin": 0, "status": "ok", "loop_kind": "closed", "warnings": [], "slot": "0"}
    usual |= {"sweep_id": sweep_id, "cell_id": cell, "launch_id": "l"}
    return [
        usual | {"block": block, "settings": settings, "steady_wall_ms": ms} | columns
        for block, log in enumerate(logs)
        for settings, ms in (("a", 1.0), ("b", float(np.exp(log))))
    ]


def is_resembling(cells: list[list[float]]) -> bool:
    """Return whether the lag-1 products of all cells exceed chance at 5%, as Moran computed it."""
    products, variance = 0.0, 0.0
    for logs in map(np.array, cells):
        n, off = len(logs), logs - np.mean(logs)
        if n > 2 and np.var(logs) > 0:
            products += float((off[1:] * off[:-1]).sum() / np.var(logs, ddof=1) + (n - 1) / n)
            variance += (n - 1) * (n - 2) ** 2 / n**2
    return bool(variance and products > 1.645 * np.sqrt(variance))


DRIFT, TURNS = [0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 0.0, 1.0, 0.0]
CASES: list[list[list[float]]] = [
    [DRIFT],
    [DRIFT] * 3,
    [TURNS] * 3,
    [[0.0, 1.0, 1.0, 0.0, 0.0]] * 5,
    [DRIFT, DRIFT, TURNS],
    [DRIFT, DRIFT, DRIFT, TURNS],
    [[0.0, 1.0]] * 9,
    [[0.0, 1.0, 2.0]] * 9,
    [[0.0, 0.0, 0.0, 0.0], DRIFT, DRIFT],
    [[0.1, 0.3, 0.2, 0.4, 0.5, 0.4]] * 2,
    [[0.1, 0.3, 0.2, 0.4, 0.5, 0.4]] * 3,
    [[0.0, 3.0, 2.0, 4.0, 5.0, 4.0, 6.0]] * 2,
]


def test_sweeps_whose_blocks_resemble_the_block_before_are_those_that_moran_finds(
    resembling: Connection,
) -> None:
    rows = [
        row
        for case, cells in enumerate(CASES)
        for number, logs in enumerate(cells)
        for row in blocks(f"{case}", logs, f"{number}")
    ]
    fill(resembling, "trials", rows)
    found = {row["sweep_id"] for row in ask(resembling, "from resembling_sweeps(null)")}
    assert found == {f"{case}" for case, cells in enumerate(CASES) if is_resembling(cells)}
    assert 3 <= len(found) < len(CASES) - 3


def test_blocks_that_do_not_count_resemble_no_other(resembling: Connection) -> None:
    """A block may be split over launches or slots; the configs of a race change."""
    left_out: dict[str, dict[str, Any]] = {
        "drift": {},
        "race": {},
        "twin": {"twin": 1},
        "failed": {"status": "error"},
        "open": {"loop_kind": "open"},
        "throttled": {"warnings": ["throttled"]},
    }
    rows = [
        row
        for sweep, columns in left_out.items()
        for cell in range(4)
        for row in blocks(sweep, DRIFT, f"{cell}", **columns)
    ]
    split = [
        {**row, "sweep_id": name, **({name: "other"} if row["settings"] == "b" else {})}
        for name in ("launch_id", "slot")
        for row in rows
        if row["sweep_id"] == "drift"
    ]
    fill(resembling, "trials", rows + split)
    fill_records(
        resembling,
        [{"sweep_id": "race", "status": "raced_out"}, {"sweep_id": "drift", "status": "ok"}],
    )
    assert ask(resembling, "from resembling_sweeps(null)") == [{"sweep_id": "drift"}]


CALLS: list[tuple[str, list[tuple[str, str | None]]]] = [
    (
        "'ban', null",
        [
            ("july x failed", "no"),
            ("july x off", "no"),
            ("july x zero", "no"),
            ("june x ban", "yes"),
            ("june x freeze", None),
            ("june x off", "no"),
            ("june x on", "no"),
            ("june x twin", "no"),
            ("june y off", "no"),
        ],
    ),
    (
        "'frozen', 'june'",
        [
            ("june x ban", "yes"),
            ("june x freeze", "yes"),
            ("june x off", "no"),
            ("june x off", "no"),
            ("june x on", "no"),
            ("june x on", "no"),
            ("june x twin", "no"),
            ("june x twin", "no"),
            ("june y off", "no"),
        ],
    ),
    (
        "'benchmark', 'jul*', raced_out := true",
        [("july x failed", "false"), ("july x off", "false"), ("july x zero", "true")],
    ),
    (
        "'deterministic', 'june', raced_out := true",
        [
            ("june x ban", "false"),
            ("june x freeze", "false"),
            ("june x off", "false"),
            ("june x on", "false"),
            ("june x out", "true"),
            ("june x twin", "false"),
            ("june y off", "false"),
        ],
    ),
    (
        "null, 'june'",
        [
            ("june x ban", None),
            ("june x freeze", None),
            ("june x off", None),
            ("june x on", None),
            ("june x out", None),
            ("june x twin", None),
            ("june y off", None),
        ],
    ),
    (
        "'race', 'june'",
        [
            ("june x ban", "other"),
            ("june x freeze", "other"),
            ("june x off", "other"),
            *[("june x on", "best")] * 4,
            ("june x twin", "other"),
            ("june y off", "best"),
        ],
    ),
    (
        "'usual', 'june'",
        [
            ("june x ban", "other"),
            ("june x freeze", "other"),
            *[("june x off", "usual")] * 4,
            ("june x on", "other"),
            *[("june x twin", "usual")] * 4,
            ("june y off", "usual"),
        ],
    ),
]


def test_records_have_the_setting_that_a_contrast_asks_for(connection: Connection) -> None:
    """Two sweeps and two cells: without a ban, with bans, with a freeze, raced out."""

    def record(sweep: str, cell: str, trial: str, **columns: Any) -> dict[str, Any]:
        usual: dict[str, Any] = {"sweep_id": sweep, "cell_id": cell}
        usual |= {"trial_id": f"{sweep} {cell} {trial}"}
        usual |= {name: mark.usual for name, mark in settings().items()}
        return usual | {"twin": 0, "status": "ok", "steady_wall_ms": 5.0} | columns

    rows = [
        record("june", "x", "off"),
        record("june", "x", "on", benchmark=True, steady_wall_ms=3.0),
        record("june", "x", "ban", errata="ConvFwd:5", steady_wall_ms=4.0),
        record("june", "x", "freeze", errata="ConvFwd:5:k2=1", steady_wall_ms=6.0),
        record("june", "x", "out", status="raced_out", deterministic=True, steady_wall_ms=None),
        record("june", "x", "twin", twin=1),
        record("june", "y", "off"),
        record("july", "x", "off", steady_wall_ms=2.0),
        record("july", "x", "zero", benchmark=True, steady_wall_ms=0.0),
        record("july", "x", "failed", deterministic=True, status="error", steady_wall_ms=None),
    ]
    fill_records(connection, rows)
    for call, expected in CALLS:
        found = ask(connection, f"select trial_id, setting from configured({call}) order by all")
        assert [(row["trial_id"], row["setting"]) for row in found] == expected, call
