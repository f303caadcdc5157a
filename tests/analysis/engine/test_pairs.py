"""The pairs of a contrast, step by step: which trials pair, which times compare, which blocks count."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from math import exp, log, sqrt
from typing import Any

import pyarrow as pa
import pytest
from duckdb import DuckDBPyConnection as Connection

from tests.analysis.one_macro import Rows, ask, fill, fill_like_records, fill_records, macros


@pytest.fixture
def steps() -> Iterator[Connection]:
    """The last step, over blocks whose times are known."""
    standing = {
        "timed_blocks(flag, from_value, to_value, of_sweep)": "blocks",
        "ended_sweeps()": "ended",
    }
    with macros(standing) as connection:
        yield connection


def timed(block: int, **columns: Any) -> dict[str, Any]:
    return {
        "sweep_id": "s",
        "cell_id": "c",
        "other_settings": "",
        "judged_cell": "j",
        "block": block,
        "present": "both",
        "pairing": "paired",
        "looks": [3, 5],
        "launch_bound": 0,
        "launch_bound_known": 2,
        "ran_at": "host|launch",
        "in_turns": True,
        "loop_kind": "closed",
    } | columns


def looked_at(
    steps: Connection, rows: Rows, ended: Mapping[str, bool | None] | bool, more: str = ""
) -> Rows:
    fill(steps, "blocks", rows, {"looks": pa.list_(pa.int64()), "launch_bound": pa.int64()})
    if isinstance(ended, bool):
        ended = dict.fromkeys([row["sweep_id"] for row in rows], ended)
    sweeps = [{"sweep_id": sweep_id, "has_ended": has} for sweep_id, has in ended.items()]
    fill(steps, "ended", sweeps, {"has_ended": pa.bool_()})
    sql = f"from block_pairs('benchmark', 'false', 'true', null{more}) order by sweep_id, block"
    return ask(steps, sql)


LOOKS = [
    # blocks, ended, counted, share of the error, too early, between looks
    (1, None, 1, 0.4, None, True),
    (1, False, 1, 0.4, True, True),
    (2, False, 2, 0.4, True, True),
    (3, False, 3, 0.4, False, False),
    (4, False, 3, 0.4, False, True),
    (4, None, 3, 0.4, False, True),
    (5, False, 5, 0.6, False, False),
    (6, False, 5, 0.6, False, True),
    (1, True, 1, 0.4, False, True),
    (2, True, 2, 1.0, False, True),
    (3, True, 3, 1.0, False, False),
    (4, True, 4, 0.6, False, True),
    (5, True, 5, 0.6, False, False),
    (6, True, 6, 0.0, False, True),
]


def test_a_look_has_its_blocks_and_its_share_of_the_error(steps: Connection) -> None:
    """Looks after 3 and 5 blocks: a block after a look waits for the next, unless none will come."""
    blocks = [
        timed(3 * n, sweep_id=f"{case}", judged_cell=f"{case}")
        for case, (count, *_) in enumerate(LOOKS)
        for n in range(count)
    ]
    rows = looked_at(steps, blocks, {f"{case}": ended for case, (_, ended, *_) in enumerate(LOOKS)})
    for case, (count, ended, counted, *expected) in enumerate(LOOKS):
        of_case = [row for row in rows if row["sweep_id"] == f"{case}"]
        assert [row["number"] for row in of_case] == list(range(1, count + 1))
        assert [bool(row["is_counted"]) for row in of_case] == [n < counted for n in range(count)]
        for row in of_case:
            found = [row[name] for name in ("share", "too_early", "between_looks")]
            assert (row["recorded"], row["at_most"]) == (count, 5)
            assert found == expected, (count, ended)


def test_who_asks_may_know_that_a_sweep_is_over_or_is_not(steps: Connection) -> None:
    blocks = [timed(n) for n in range(4)]
    over = looked_at(steps, blocks, {"s": None}, ", is_over := true")
    assert [row["is_counted"] for row in over] == [True] * 4
    later = looked_at(steps, blocks, True, ", is_over := false")
    assert [row["is_counted"] for row in later] == [True] * 3 + [False]


def test_blocks_that_are_no_pair_are_recorded_but_not_counted(steps: Connection) -> None:
    """Half a block is no record, so the look waits for a further block."""
    half = timed(1, present="baseline", pairing="unpaired")
    rows = looked_at(
        steps, [timed(0), half, timed(2, pairing="doubtful"), timed(3), timed(4)], False
    )
    assert [row["number"] for row in rows] == [1, 1, 2, 3, 4]
    assert [bool(row["is_counted"]) for row in rows] == [True, False, False, True, False]
    assert [bool(row["waits"]) for row in rows] == [False, False, False, False, True]


def test_a_sweep_without_looks_spends_all_and_is_never_early(steps: Connection) -> None:
    for ended in (True, False):
        (row,) = looked_at(steps, [timed(0, looks=None)], ended)
        assert row["is_counted"] and row["share"] == 1 and row["at_most"] is None
        assert not row["too_early"] and not row["between_looks"]


def test_a_sweep_that_only_failed_leaves_anothers_looks_alone(steps: Connection) -> None:
    failed = timed(0, present="baseline", pairing="unpaired", sweep_id="a", looks=[4])
    rows = looked_at(steps, [failed, *(timed(n) for n in range(3))], False)
    assert [row["looks"] for row in rows] == [None, [3, 5], [3, 5], [3, 5]]
    (alone,) = looked_at(steps, [failed], False)
    assert alone["looks"] == [4] and alone["too_early"]
    other = [timed(0, sweep_id="t", looks=None)]
    both = looked_at(steps, [*(timed(n) for n in range(3)), *other], False)
    assert {row["share"] for row in both} == {0.55}  # three blocks at 0.4, one at 1
    assert [row["looks"] for row in both] == [[3, 5]] * 3 + [None]


def test_cpu_bound_loops_scatter_more_and_by_host(steps: Connection) -> None:
    """A loop is CPU-bound if more than half of its trials are; unpaired trials do not count."""
    few, many = 0.003**2, 0.01**2
    cases: list[tuple[dict[str, Any], bool | None, float | None, float | None]] = [
        ({"launch_bound": 1}, False, few, few),
        ({"launch_bound": 2}, True, many, few),
        ({"launch_bound_known": 0}, None, many, few),
        ({"loop_kind": "open"}, False, None, None),
        ({"in_turns": False}, False, None, None),
    ]
    blocks = [
        timed(n, sweep_id=f"{case}", judged_cell=f"{case}", **columns)
        for case, (cells, *_) in enumerate(cases)
        for n, columns in enumerate(
            [cells, cells | {"pairing": "unpaired", "launch_bound": 0, "launch_bound_known": 2}]
        )
    ]
    for row in looked_at(steps, blocks, True):
        _, waits, wall, device = cases[int(row["sweep_id"])]
        assert row["waits_for_cpu"] is waits
        assert row["origin"] == ("host|launch" if waits else None)
        assert (row["wall_elsewhere"], row["device_elsewhere"]) == pytest.approx((wall, device))


def test_a_sweep_has_ended_once_each_shard_has(steps: Connection) -> None:
    def record(minute: int, **columns: Any) -> dict[str, Any]:
        return {"ended_at": datetime(2026, 11, 2, 10, minute, tzinfo=UTC)} | columns

    with macros() as connection:
        rows = [
            record(0, sweep_id="once", ends_launch=False),
            record(1, sweep_id="once", ends_launch=True),
            record(0, sweep_id="resumed", ends_launch=True),
            record(1, sweep_id="resumed", ends_launch=False),
            record(0, sweep_id="shards", shard=1, ends_launch=True),
            record(0, sweep_id="shards", shard=2, ends_launch=False),
            record(0, sweep_id="old"),
        ]
        fill_records(connection, rows)
        found = {
            row["sweep_id"]: row["has_ended"] for row in ask(connection, "from ended_sweeps()")
        }
    assert found == {"once": True, "resumed": False, "shards": False, "old": True}


@pytest.fixture
def times() -> Iterator[Connection]:
    """The step that makes times comparable, over blocks with both trials."""
    standing = {
        "contrast_blocks(flag, from_value, to_value, of_sweep)": "blocks",
        "logs_in_turns(pairs)": "turns",
        "open_loops()": "loops",
    }
    with macros(standing) as connection:
        fill(connection, "turns", [rounds(0.0) | {"sweep_id": "other"}])
        fill(connection, "loops", [{"id": ["s", "x"], "ms": [1.0]}])
        yield connection


def both(**columns: Any) -> dict[str, Any]:
    sides = {
        f"{side}_{name}": value
        for side, ms in (("baseline", 8.0), ("candidate", 2.0))
        for name, value in {
            "ok": True,
            "trial_id": side,
            "cache": "warm",
            "steady_wall_ms": ms,
            "steady_device_ms": ms / 2,
            "source": "graph",
            "kernels_source": "profiler",
            "kernels_hash": side[0],
            "fingerprint": "bits",
            "first_ms": [ms, 10 * ms, 100 * ms],
            "throttled": False,
        }.items()
    }
    return (
        sides
        | {
            "sweep_id": "s",
            "place": "p",
            "own_kind": "closed",
            "own_turns": False,
            "same_place": True,
            "shared": False,
            "is_uneven": False,
            "fewer_steps": 2,
            "shapes": 2,
        }
        | columns
    )


def rounds(wall: float) -> dict[str, Any]:
    return {
        "sweep_id": "s",
        "baseline_trial_id": "baseline",
        "candidate_trial_id": "candidate",
        "wall_log": wall,
        "device_log": 2 * wall,
        "wall_error": 0.5,
        "device_error": 0.25,
    }


TYPES = {
    "own_kind": pa.string(),
    "own_turns": pa.bool_(),
    "baseline_ok": pa.bool_(),
    "candidate_ok": pa.bool_(),
    "baseline_kernels_source": pa.string(),
}


def compared(times: Connection, *rows: dict[str, Any], flag: str = "benchmark") -> Rows:
    fill(times, "blocks", list(rows), TYPES)
    sql = f"from timed_blocks('{flag}', 'false', 'true', null)"
    return ask(times, sql)


PAIRINGS: list[tuple[dict[str, Any], str, str, tuple[bool, bool]]] = [
    ({}, "paired", "both", (False, False)),
    ({"baseline_throttled": True}, "paired", "both", (False, False)),
    ({"candidate_throttled": True}, "paired", "both", (False, False)),
    (
        {"baseline_throttled": True, "candidate_throttled": True},
        "doubtful",
        "both",
        (False, False),
    ),
    ({"shared": True}, "doubtful", "both", (False, False)),
    ({"shared": True, "same_place": False}, "split", "both", (False, False)),
    ({"baseline_ok": False, "same_place": False}, "unpaired", "both", (True, False)),
    ({"candidate_ok": False}, "unpaired", "both", (False, True)),
    ({"baseline_ok": None}, "unpaired", "candidate", (False, False)),
    ({"candidate_ok": None}, "unpaired", "baseline", (False, False)),
]


def test_a_pair_is_doubtful_split_or_unpaired(times: Connection) -> None:
    cases = [both(sweep_id=f"{case}", **columns) for case, (columns, *_) in enumerate(PAIRINGS)]
    for row in compared(times, *cases):
        columns, pairing, present, failed = PAIRINGS[int(row["sweep_id"])]
        assert (row["pairing"], row["present"]) == (pairing, present), columns
        assert (row["baseline_failed"], row["candidate_failed"]) == failed, columns


def test_times_in_turns_have_the_ratio_of_their_rounds(times: Connection) -> None:
    fill(times, "turns", [rounds(log(0.5))])
    (row,) = compared(times, both())
    assert row["baseline_ms"] == pytest.approx(4 * sqrt(2))
    assert row["candidate_ms"] == pytest.approx(4 / sqrt(2))
    assert row["candidate_device_ms"] / row["baseline_device_ms"] == pytest.approx(0.25)
    assert (row["wall_error"], row["device_error"]) == (0.5, 0.25)
    for other in ({"sweep_id": "t"}, {"baseline_trial_id": "x"}, {"candidate_trial_id": "x"}):
        (row,) = compared(times, both(**other))
        assert (row["baseline_ms"], row["candidate_ms"]) == (8, 2)
        assert (row["baseline_device_ms"], row["candidate_device_ms"]) == (4, 1)


def test_open_loops_compare_over_the_steps_that_both_made(times: Connection) -> None:
    loops = [
        {"id": ["s", "baseline"], "ms": [1.0, 2.0, 30.0]},
        {"id": ["s", "candidate"], "ms": [4.0, 5.0]},
    ]
    fill(times, "loops", loops)
    (row,) = compared(times, both(own_kind="open", is_uneven=True))
    assert (row["baseline_ms"], row["candidate_ms"]) == (1.5, 4.5)
    fill(times, "turns", [rounds(0.0) | {"sweep_id": "other"}])
    (row,) = compared(times, both(own_kind="open"))
    assert (row["baseline_ms"], row["candidate_ms"]) == (8, 2)


def test_what_does_not_compare_has_no_time(times: Connection) -> None:
    fill(times, "turns", [rounds(0.0) | {"sweep_id": "other"}])
    (row,) = compared(times, both(own_kind="mixed"))
    assert row["baseline_ms"] is None and row["candidate_ms"] is None
    assert (row["baseline_device_ms"], row["candidate_device_ms"]) == (4, 1)
    sources = {
        ("graph", "captured graph"): True,
        ("events", "events"): True,
        (None, None): True,
        ("events", "graph"): False,
        ("graph", "events"): False,
        ("events", None): False,
    }
    for (baseline, candidate), one_clock in sources.items():
        fills = both(baseline_source=baseline, candidate_source=candidate)
        fill(
            times,
            "blocks",
            [fills],
            {"baseline_source": pa.string(), "candidate_source": pa.string()},
        )
        (row,) = ask(times, "from timed_blocks('benchmark', 'false', 'true', null)")
        assert bool(row["one_clock"]) is one_clock, (baseline, candidate)
        assert row["baseline_device_ms"] == (4 if one_clock else None)
        assert row["candidate_device_ms"] == (1 if one_clock else None)


def test_first_calls_and_choices_of_a_block(times: Connection) -> None:
    (row,) = compared(times, both())
    assert (row["baseline_cold_ms"], row["candidate_cold_ms"]) == (88, 22)
    assert row["first_shape_extra_ms"] == -6
    assert row["same_bits"] is True
    assert (row["choice"], row["other_kernels"]) == ("b c", True)
    (row,) = compared(times, both(candidate_kernels_hash="b", candidate_fingerprint="others"))
    assert (row["choice"], row["other_kernels"], row["same_bits"]) == ("b b", False, False)
    (row,) = compared(times, both(baseline_kernels_source="log"))
    assert row["choice"] is None and row["other_kernels"] is None


@pytest.mark.parametrize(
    ("flag", "met"),
    [
        (
            "benchmark",
            {("warm", "warm"): "warm", ("warm", "disabled"): None, ("disabled", "warm"): None},
        ),
        (
            "compute_cache_disabled",
            {
                ("empty", "disabled"): "empty",
                ("disabled", "warm"): "warm",
                ("empty", "warm"): None,
            },
        ),
    ],
)
def test_a_block_met_one_state_of_the_compute_cache(
    times: Connection, flag: str, met: dict[tuple[str, str], str | None]
) -> None:
    states = [both(baseline_cache=b, candidate_cache=c) for b, c in met]
    rows = compared(times, *states, flag=flag)
    found = {(row["baseline_cache"], row["candidate_cache"]): row["compute_cache"] for row in rows}
    assert found == met


def test_a_pair_that_failed_is_judged_with_its_cells_other_pairs(times: Connection) -> None:
    failed = both(own_kind=None, own_turns=None, candidate_ok=False, fewer_steps=9)
    elsewhere = both(place="q", own_kind="open", own_turns=False)
    rows = compared(times, both(own_turns=True), failed, elsewhere)
    assert {(row["loop_kind"], row["in_turns"]) for row in rows if row["place"] == "p"} == {
        ("closed", True)
    }
    cells = [row["judged_cell"] for row in rows if row["place"] == "p"]
    assert len(cells) == 2 and len(set(cells)) == 1
    (alone,) = compared(times, failed)
    assert (alone["loop_kind"], alone["in_turns"]) == (None, False)


@pytest.fixture
def trials() -> Iterator[Connection]:
    """The first two steps, over trials with the value of the contrast's setting."""
    standing = {"configured(flag, of_sweep, raced_out := false)": "trials"}
    with macros(standing) as connection:
        yield connection


def trial(setting: str, **columns: Any) -> dict[str, Any]:
    return {
        "trial_id": f"{setting} {columns.get('block', 0)}",
        "sweep_id": "s",
        "cell_id": "c",
        "block": 0,
        "env_hash": "e",
        "software_hash": "w",
        "software": "last_good",
        "host": "h",
        "launch_id": "l",
        "slot": "0",
        "device": "cuda",
        "setting": setting,
        "settings": f"benchmark={setting}",
        "other_settings": "",
        "twin": 0,
        "status": "ok",
        "enabled": True,
        "benchmark": setting == "true",
        "loop_kind": "closed",
        "steady_iterations": 10,
        "in_turns": True,
        "warnings": [],
        "cold": [{"shape": [1, 3], "first_ms": 5.0, "second_ms": 2.0}],
    } | columns


def put(trials: Connection, *rows: dict[str, Any]) -> None:
    texts = ("setting", "settings", "other_settings")
    fill_like_records(trials, "trials", [dict(row) for row in rows], texts=texts)


def blocks(trials: Connection, *rows: dict[str, Any], flag: str = "benchmark") -> Rows:
    put(trials, *rows)
    sql = f"from contrast_blocks('{flag}', 'false', 'true', null) order by sweep_id, block"
    return ask(trials, sql)


def sided(trials: Connection, *rows: dict[str, Any], flag: str = "benchmark") -> Rows:
    put(trials, *rows)
    sql = f"from contrast_trials('{flag}', 'false', 'true', null) order by trial_id"
    return ask(trials, sql)


def test_only_cells_with_both_sides_are_of_a_contrast(trials: Connection) -> None:
    rows = sided(
        trials,
        trial("false"),
        trial("true"),
        trial("other"),
        trial("false", twin=1, trial_id="twin"),
        trial("true", cell_id="alone", trial_id="x"),
        trial("false", cell_id="alone too", trial_id="y"),
    )
    assert [(row["trial_id"], row["b"], row["c"]) for row in rows] == [
        ("false 0", True, False),
        ("true 0", False, True),
    ]
    twins = sided(trials, trial("false"), trial("true", twin=1), flag="twin")
    assert len(twins) == 2


def test_each_side_of_code_has_its_own_hashes(trials: Connection) -> None:
    sides = trial("false", software_hash="w1", workload_hash="u1"), trial("true", workload_hash="u")
    found = sided(trials, *sides, flag="code")
    assert {(row["software_hash"], row["workload_hash"]) for row in found} == {("w", None)}
    found = sided(trials, *sides)
    assert {(row["software_hash"], row["workload_hash"]) for row in found} == {
        ("w1", "u1"),
        ("w", "u"),
    }


SHOWN: list[tuple[dict[str, Any], str, object]] = [
        ({"in_turns": None}, "took_turns", False),
        ({"warnings": None}, "throttled", False),
        ({"warnings": ["throttled"]}, "throttled", True),
        ({"warnings": ["throttled"]}, "shared", False),
        ({"warnings": ["shared_gpu"]}, "shared", True),
        ({"compute_cache": None}, "cache", "none"),
        ({"one_time_s": 2.0}, "one_time_ms", 2000.0),
        ({}, "shape_names", ["1x3"]),
        ({}, "first_ms", [5.0]),
        ({}, "second_ms", [2.0]),
        ({}, "compile_ms", [0.0]),
        ({"execution": "compiled", "cold_compile_ms": [3.0]}, "compile_ms", [3.0]),
        ({"execution": "compiled"}, "compile_ms", None),
        ({"execution": "reduce_overhead"}, "compile_ms", None),
        ({"execution": "compiled", "cold_compile_ms": [3.0], "steady_wall_ms": 1.0}, "compile_ms", [3.0]),
        ({"execution": "reduce_overhead", "cold_compile_ms": [3.0], "steady_wall_ms": 1.0}, "compile_ms", [4.0]),
        ({"execution": "max_autotune", "steady_wall_ms": 1.5}, "first_ms", [5.5]),
        ({"execution": "max_autotune", "steady_wall_ms": 2.5}, "first_ms", [5.0]),
        ({"execution": "compiled", "steady_wall_ms": 1.5}, "first_ms", [5.0]),
        ({"compiled_graphs": 0}, "compiles", True),
        ({}, "compiles", False),
        ({"cold_peak_reserved_bytes": 5, "steady_peak_reserved_bytes": 7}, "peak_reserved_bytes", 7),
        ({"cold_peak_reserved_bytes": 9, "steady_peak_reserved_bytes": 7}, "peak_reserved_bytes", 9),
        (
            {"cold_peak_allocated_bytes": 9, "steady_peak_allocated_bytes": 7},
            "peak_allocated_bytes",
            9,
        ),
        ({"status": "failed", "message": "why\nwhere", "execution": "compiled"}, "execution_notes", ["why"]),
        ({"status": "raced_out", "message": "why", "execution": "compiled"}, "execution_notes", []),
        ({"status": "ok", "message": "why", "execution": "compiled"}, "execution_notes", []),
        ({"status": "failed", "message": "why"}, "execution_notes", []),
        ({"graph_breaks": ["print"]}, "execution_notes", ["graph break: print"]),
        ({"routes": ["CudnnConv"]}, "convolved", True),
        ({"routes": ["slow"], "cudnn_operations": ["cudnn_convolution"]}, "convolved", True),
        ({"routes": ["slow"], "cudnn_operations": ["cudnn_rnn"]}, "convolved", False),
        ({"routes": [], "convolutions": 0}, "convolved", False),
        ({"routes": [], "convolutions": 1}, "convolved", None),
        ({"cudnn_operations": []}, "others", False),
        ({"cudnn_operations": ["cudnn_rnn"]}, "others", True),
        ({"benchmark": False, "logged_choices": [{"plans_built": 1}], "logged_searches": 1}, "searched", None),
        ({"benchmark": True, "logged_choices": [], "logged_searches": 1}, "searched", None),
        ({"benchmark": True, "logged_choices": [{"plans_built": 1}], "logged_searches": 1}, "searched", True),
        ({"benchmark": True, "logged_choices": [{"plans_built": 1}], "logged_searches": 0}, "searched", False),
        ({"benchmark": True, "logged_choices": [{"plans_built": 2}], "logged_searches": 0}, "searched", None),
]  # fmt: skip


def test_a_trial_shows_what_its_block_needs(trials: Connection) -> None:
    cells = [
        trial(setting, cell_id=f"{case}", **(columns if setting == "true" else {}))
        for case, (columns, *_) in enumerate(SHOWN)
        for setting in ("false", "true")
    ]
    for row in sided(trials, *cells):
        columns, name, value = SHOWN[int(row["cell_id"])]
        assert row["b"] or row[name] == value, (columns, name)


def test_a_trial_without_cudnn_does_not_show_what_would_run_in_it(trials: Connection) -> None:
    for flag, told in (("enabled", [False, True]), ("benchmark", [True, True])):
        found = sided(trials, trial("false", enabled=False), trial("true"), flag=flag)
        assert [row["tells"] for row in found] == told


def test_a_block_has_one_slot_launch_and_software(trials: Connection) -> None:
    cases: list[tuple[dict[str, Any], bool]] = [
        ({}, True),
        ({"slot": "1"}, False),
        ({"launch_id": "m"}, False),
        ({"env_hash": "f"}, False),
        ({"software_hash": "v"}, False),
        ({"workload_hash": "u"}, True),
        ({"in_turns": False}, False),
    ]
    pairs = [
        (trial("false", sweep_id=f"{case}"), trial("true", sweep_id=f"{case}", **columns))
        for case, (columns, _) in enumerate(cases)
    ]
    for row in blocks(trials, *(side for pair in pairs for side in pair)):
        columns, same = cases[int(row["sweep_id"])]
        assert row["same_place"] is same, columns
        assert row["own_turns"] is (True if same else None), columns
        assert (row["env_hash"], row["software_hash"], row["ran_at"]) == ("e", "w", "h|l")
    (row,) = blocks(trials, trial("false", workload_hash="a"), trial("true", workload_hash="b"))
    assert row["same_place"] is False and row["workload_hash"] == "a"


def test_a_block_keeps_each_sides_own_values(trials: Connection) -> None:
    baseline = trial(
        "false", warnings=["throttled"], launch_bound=True, distinct_shapes=3, looks=[4]
    )
    candidate = trial(
        "true", warnings=["shared_gpu"], launch_bound=False, looks=[3], distinct_shapes=2
    )
    candidate["cold"] = [*candidate["cold"], {"shape": [2, 3], "first_ms": 7.0}]
    (row,) = blocks(trials, baseline, candidate)
    assert (row["baseline_throttled"], row["candidate_throttled"], row["shared"]) == (
        True,
        False,
        True,
    )
    assert (row["launch_bound_known"], row["launch_bound"], row["distinct_shapes"]) == (2, 1, 3)
    assert sorted(row["warnings"]) == ["shared_gpu", "throttled"]
    assert (row["shapes"], row["looks"], row["shape_names"]) == (1, [3], ["1x3"])
    assert (row["baseline_trial_id"], row["candidate_trial_id"]) == ("false 0", "true 0")


def test_loops_of_two_kinds_are_mixed_and_open_ones_may_be_uneven(trials: Connection) -> None:
    opened, fewer = {"loop_kind": "open"}, {"steady_iterations": 7}
    failed = {"loop_kind": None, "status": "failed"}
    cases: list[tuple[dict[str, Any], dict[str, Any], tuple[str, bool, int]]] = [
        ({}, {}, ("closed", False, 10)),
        ({}, fewer, ("closed", False, 7)),
        (opened, opened, ("open", False, 10)),
        (opened | fewer, opened, ("open", True, 7)),
        (opened, {}, ("mixed", False, 10)),
        (opened, failed, ("open", False, 10)),
    ]
    pairs = [
        side
        for n, (b, c, _) in enumerate(cases)
        for side in (trial("false", block=n, **b), trial("true", block=n, **c))
    ]
    rows = blocks(trials, *pairs)
    found = [(row["own_kind"], bool(row["is_uneven"]), row["fewer_steps"]) for row in rows]
    assert found == [expected for *_, expected in cases]
    *_, last = rows
    assert last["own_turns"] is None and last["same_place"] is True


def test_blocks_without_a_twin_or_with_a_trial_raced_out_are_left_out(trials: Connection) -> None:
    out = trial("true", status="raced_out")
    assert blocks(trials, trial("false"), out) == []
    pair = trial("false", block=1), trial("true", block=1)
    assert [row["block"] for row in blocks(trials, trial("false"), out, *pair)] == [1]
    twins = trial("false", block=2), trial("true", block=2, twin=1)
    rows = blocks(trials, *pair, *twins, flag="twin")
    assert [(row["block"], row["looks"]) for row in rows] == [(2, None)]


def test_a_setting_that_nothing_read_has_a_reason(trials: Connection) -> None:
    """Any trial of the cell shows what runs in cuDNN."""
    quiet = {"routes": ["slow"], "cudnn_operations": [], "convolutions": 0}
    cases: dict[str, tuple[list[dict[str, Any]], str | None]] = {
        "not_cudnn": ([quiet, quiet], "not_cudnn"),
        "shown": ([quiet, quiet, {"routes": ["Cudnn"]}], None),
        "miopen": ([quiet, quiet, {"routes": ["Cudnn"]}, {"routes": ["MIOpen"]}], "miopen"),
        "no_cuda": ([{"device": "cpu"}, {"device": "cpu"}], "no_cuda"),
    }
    rows = [
        trial(("false", "true")[n % 2], cell_id=cell_id, block=n // 2, **columns)
        for cell_id, (records, _) in cases.items()
        for n, columns in enumerate(records)
    ]
    for row in blocks(trials, *rows):
        assert row["no_effect_reason"] == cases[row["cell_id"]][1]


@pytest.fixture
def turns() -> Iterator[Connection]:
    with macros() as connection:
        yield connection


def test_rounds_that_both_processes_have_are_compared(turns: Connection) -> None:
    b, c = (
        {
            "sweep_id": "s",
            "trial_id": name,
            "in_turns": True,
            "steady_wall_samples_ms": [ms, 2 * ms, 4 * ms, 0.0],
            "steady_wall_rounds": [0, 1, last, 4],
            "steady_device_samples_ms": [3 * ms],
            "steady_device_rounds": [0],
        }
        for name, ms, last in (("b", 1.0, 2), ("c", 2.0, 3))
    )
    alone = {**c, "trial_id": "alone", "in_turns": False}
    fill_records(turns, [b, c, alone, {**b, "sweep_id": "t"}])
    pair = {"sweep_id": "s", "baseline_trial_id": "b"}
    fill(turns, "pairs", [pair | {"candidate_trial_id": name} for name in ("c", "alone")])
    (row,) = ask(turns, "from logs_in_turns('pairs')")
    assert row["wall_logs"] == [log(2), log(2), None]
    assert (row["wall_log"], row["device_log"]) == (log(2), log(2))
    assert row["wall_error"] == 0 and row["device_error"] is None
    assert exp(row["device_log"]) == pytest.approx(2)
