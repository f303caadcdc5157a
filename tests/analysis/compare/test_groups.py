"""The groups that two sides are made of, which groups compare, and which processes share a block."""

from collections.abc import Iterator
from math import log
from typing import Any

import pyarrow as pa
import pytest
from duckdb import DuckDBPyConnection as Connection

from tests.analysis.one_macro import (
    Rows,
    ask,
    fill,
    fill_like_records,
    fill_records,
    macros,
)


@pytest.fixture
def connection() -> Iterator[Connection]:
    with macros() as opened:
        yield opened


def process(side: str, **columns: Any) -> dict[str, Any]:
    return {
        "cell": "x",
        "side": side,
        "sweep_id": "s",
        "trial_id": side,
        "block": 0,
        "slot": "0",
        "launch_id": "l",
        "wall": 2.0 if side == "c" else 1.0,
        "device": 4.0 if side == "c" else 1.0,
    } | columns


def met(connection: Connection, *rows: dict[str, Any]) -> Rows:
    fill(connection, "processes", list(rows), {"device": pa.float64()})
    return ask(connection, "from same_blocks('processes', 'b', 'c')")


OTHERS: dict[str, dict[str, Any]] = {
    "cell": {"cell": "elsewhere"},
    "sweep": {"sweep_id": "t"},
    "block": {"block": 1},
    "slot": {"slot": "1"},
    "launch": {"launch_id": "m"},
    "side": {"side": "d"},
}


def test_processes_meet_in_one_block_of_one_launch(connection: Connection) -> None:
    fill_records(connection, [])
    rows = [
        side
        for cell, other in OTHERS.items()
        for side in (process("b", cell=cell), process("c") | {"cell": cell} | other)
    ]
    (row,) = met(connection, *rows, process("b"), process("c"))
    assert (row["b"]["trial_id"], row["c"]["trial_id"]) == ("b", "c")
    assert (row["b"]["cell"], row["wall"], row["device"]) == ("x", log(2), log(4))


def in_turns(trial_id: str, ms: float, **columns: Any) -> dict[str, Any]:
    samples = {"steady_wall_samples_ms": [ms, ms], "steady_device_samples_ms": [ms, ms]}
    places = {"steady_wall_rounds": [0, 1], "steady_device_rounds": [0, 1]}
    return {"sweep_id": "s", "trial_id": trial_id, "in_turns": True} | samples | places | columns


def test_processes_in_turns_are_compared_by_their_rounds(connection: Connection) -> None:
    fill_records(
        connection,
        [in_turns("b", 1.0), in_turns("c", 8.0), in_turns("b", 5.0, sweep_id="t")],
    )
    rows = met(
        connection,
        process("b"),
        process("c"),
        process("b", block=1, trial_id="alone"),
        process("c", block=1, trial_id="not in turns"),
        process("b", block=2, trial_id="b", device=None),
        process("c", block=2, trial_id="c", device=None),
    )
    found = {row["b"]["block"]: (row["wall"], row["device"]) for row in rows}
    assert found == {0: (log(8), log(8)), 1: (log(2), log(4)), 2: (log(8), None)}


TRIAL: dict[str, Any] = {
    "value": "b",
    "cell_id": "c",
    "settings": "off",
    "loop_kind": "closed",
    "env_hash": "e",
    "software_hash": "s",
    "workload_hash": None,
    "status": "ok",
    "twin": 0,
    "warnings": [],
    "in_turns": None,
}


GROUPS: list[tuple[dict[str, Any], str | None]] = [
    ({}, "same"),
    ({"in_turns": False}, "same"),
    ({"warnings": ["throttled"]}, "same"),
    ({"value": "c"}, "other"),
    ({"cell_id": "d"}, "other"),
    ({"settings": "on"}, "other"),
    ({"loop_kind": "open"}, "other"),
    ({"env_hash": "f"}, "other"),
    ({"software_hash": "t"}, "other"),
    ({"workload_hash": "w"}, "other"),
    ({"in_turns": True}, "other"),
    ({"status": "error"}, None),
    ({"twin": 1}, None),
]


def test_a_group_has_one_cell_config_hardware_software_and_side(connection: Connection) -> None:
    cases = [columns | {"trial_id": f"{number}"} for number, (columns, _) in enumerate(GROUPS)]
    fill_like_records(
        connection, "trials", [TRIAL | columns for columns in cases], texts=("value", "settings")
    )
    found = {row["trial_id"]: row for row in ask(connection, "from grouped('trials')")}
    usual = found["0"]["group_id"]
    for number, (columns, group) in enumerate(GROUPS):
        row = found.get(f"{number}")
        assert (row is None) is (group is None), columns
        if row is not None:
            assert (row["group_id"] == usual) is (group == "same"), columns
            assert row["counts"] is ("warnings" not in columns)
            assert row["in_turns"] is bool(columns.get("in_turns"))
    others = [found[f"{n}"]["group_id"] for n, (_, group) in enumerate(GROUPS) if group == "other"]
    assert len(set(others)) == len(others)


def member(group: str, **columns: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "value": group[0],
        "task": "t",
        "cell_id": "c",
        "settings": "off",
        "loop_kind": "closed",
        "in_turns": False,
        "env_hash": "e",
        "software_hash": "s",
        "workload_hash": "w",
        "is_usual": True,
        "counts": True,
        "steady_iterations": 10,
        "steady_device_source": "graph",
        "cold_peak_reserved_bytes": 5,
        "steady_peak_reserved_bytes": 7,
        "relative_l2_error": 0.1,
        "relative_max_error": 0.1,
        "layout_conversions": 1,
        "layout_conversion_ms": 1.0,
        "roofline_share": 0.5,
        "calibration_matmul_tflops": 1.0,
        "calibration_copy_gbps": 1.0,
        "kernels_source": "profiler",
        "kernels_hash": "k",
        "fingerprint": "f",
    } | columns


COMPARED: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"task": "u"}, False),
    ({"settings": "on"}, False),
    ({"loop_kind": "open"}, False),
    ({"in_turns": True}, False),
    ({"value": "b"}, False),
    ({"cell_id": "d", "env_hash": "f", "software_hash": "t"}, True),
]


def test_groups_of_one_task_and_config_compare(connection: Connection) -> None:
    """Each case is a task of its own."""
    sides = [
        side
        for number, (columns, _) in enumerate(COMPARED)
        for side in (
            member(f"b{number}", task=f"{number}"),
            member(f"c{number}", **{"task": f"{number}"} | columns),
        )
    ]
    fill(connection, "trials", sides)
    rows = ask(connection, "select cell from group_pairs('trials') order by cell")
    numbers = [number for number, (_, compares) in enumerate(COMPARED) if compares]
    pairs = [pair for n in numbers for pair in (f"b{n} c{n}", f"c{n} b{n}")]
    assert [row["cell"] for row in rows] == sorted(pairs)


def test_a_group_sums_up_its_processes(connection: Connection) -> None:
    doubtful = member("b", counts=False, steady_iterations=99, cold_peak_reserved_bytes=50)
    rows = [
        member("b"),
        member("b", steady_iterations=4, kernels_hash=None, fingerprint="g", relative_l2_error=0.3),
        member("b", steady_iterations=12, cold_peak_reserved_bytes=20, roofline_share=0.9),
        doubtful | {"fingerprint": None, "kernels_source": "log"},
        member("c"),
        member("c", steady_device_source="events"),
    ]
    fill(connection, "trials", rows, {"kernels_hash": pa.string(), "fingerprint": pa.string()})
    (pair,) = ask(connection, "from group_pairs('trials') where b.value = 'b'")
    b, c = pair["b"], pair["c"]
    assert (b["processes"], b["doubtful_processes"]) == (3, 1)
    assert (b["fewest_steps"], b["most_steps"]) == (4, 12)
    assert (b["device_source"], c["device_source"]) == ("graph", None)
    assert (b["peak_reserved_bytes"], c["peak_reserved_bytes"]) == (50, 7)
    assert (b["relative_l2_error"], b["roofline_share"]) == (0.3, 0.5)
    assert (b["kernels_source"], b["kernels"], sorted(b["bits"])) == ("log", ["k"], ["f", "g"])
