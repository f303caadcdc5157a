"""The verdict of a claim from the outcomes of its figures, by condition and GPU."""

from collections.abc import Iterator
from math import log, sqrt
from statistics import mean, variance
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from duckdb import DuckDBPyConnection as Connection

from cudnn_sweep.analysis.store.schema import axes
from tests.analysis.one_macro import Rows, ask, fill, macros

TEXTS = (*axes(), "gpu", "torch", "cudnn", "driver", "condition", "outcome", "measure", "contrast")
NUMBERS = ("baseline_value", "candidate_value", "value", "value_low", "value_high", "trials")
TYPES = {
    **dict.fromkeys((*TEXTS, "verdict_of_it", "cell_id"), pa.string()),
    **dict.fromkeys(NUMBERS, pa.float64()),
}


@pytest.fixture
def connection() -> Iterator[Connection]:
    with macros() as opened:
        yield opened


def claimed(connection: Connection, outcomes: dict[str, dict[str, str]]) -> Rows:
    """Of each GPU the outcomes by condition: h holds, d does not, u is undecided, - has none."""
    words = {"h": "holds", "d": "does not hold", "u": "undecided", "-": None}
    rows = [
        {**dict.fromkeys(TYPES), "gpu": gpu, "condition": condition, "outcome": words[letter]}
        | {"torch": "2.11", "cudnn": "9", "measure": "wall time, ms", "cell_id": f"{number}"}
        for gpu, conditions in outcomes.items()
        for condition, letters in conditions.items()
        for number, letter in enumerate(letters)
    ]
    table = pa.Table.from_pylist(rows, schema=pa.schema(list(TYPES.items())))
    connection.register("figures", table)
    return ask(connection, "from claimed('figures', 3, 'It is so.', 'sweep launch')")


CASES: dict[str, tuple[dict[str, str], tuple[Any, ...]]] = {
    "all": ({"x": "hhh", "y": "h"}, ("holds", "holds", "x: 3 of 3; y: 1 of 1", "y")),
    "few": ({"x": "hh", "y": "h"}, ("holds", "holds", "x: 2 of 2; y: 1 of 1", None)),
    "none": ({"x": "d"}, ("does not hold", "does not hold", "x: 0 of 1", None)),
    "some": (
        {"x": "hh", "y": "d", "z": "u"},
        ("holds only when", "holds only when: x", "x: 2 of 2; y: 0 of 1; z: 1 undecided", None),
    ),
    "part": (
        {"x": "hd", "y": "d"},
        ("holds only when", "holds in part: x (1 of 2)", "x: 1 of 2; y: 0 of 1", None),
    ),
    "parts": (
        {"x": "hh", "y": "hdd", "z": "hhd"},
        (
            "holds only when",
            "holds only when: x; in part: z (2 of 3); y (1 of 3)",
            "x: 2 of 2; y: 1 of 3; z: 2 of 3",
            "x",
        ),
    ),
    "most": ({"x": "huu"}, ("undecided", "undecided", "x: 1 of 1, 2 undecided", None)),
    "half": ({"x": "hu"}, ("holds", "holds", "x: 1 of 1, 1 undecided", None)),
    "open": ({"x": "uu-"}, ("undecided", "undecided", "x: 2 undecided", None)),
    "unknown": ({"x": "-"}, ("undecided", "undecided", None, None)),
}


def test_a_claim_is_judged_by_the_figures_of_each_gpu(connection: Connection) -> None:
    rows = claimed(connection, {gpu: outcomes for gpu, (outcomes, _) in CASES.items()})
    assert len(rows) == sum(len("".join(of.values())) for of, _ in CASES.values())
    for row in rows:
        _, expected = CASES[row["gpu"]]
        names = ("verdict", "in_words", "holds_in", "rests_on_few")
        found = dict(zip(names, expected, strict=True))
        if row["gpu"] == "unknown":
            del found["in_words"]
        assert {name: row[name] for name in found} == found, row["gpu"]
        assert (row["claim"], row["said"], row["measured_by"]) == (3, "It is so.", "sweep launch")
    here = {(row["gpu"], row["condition"]): row["holds_here"] for row in rows}
    assert (here["parts", "z"], here["unknown", "x"]) == ("2 of 3", None)


def test_a_claim_without_a_figure_is_not_measured(connection: Connection) -> None:
    (row,) = claimed(connection, {})
    assert row["verdict"] == "not measured"
    assert row["measured_by"] == "sweep launch" and row["gpu"] is None


def judged(connection: Connection, *rows: dict[str, Any], min_effect: str = "0.03") -> Rows:
    usual = {"clock": "wall", "family": "f", "mean": 0.05, "se": 0.02, "df": 5}
    fill(connection, "estimates", [{"cell": f"{n}"} | usual | row for n, row in enumerate(rows)])
    sql = f"from judged('estimates', {min_effect}, 0) order by cell"
    return ask(connection, sql)


def test_what_no_block_has_shown_needs_no_further_blocks(connection: Connection) -> None:
    """An unseen choice widens the interval; blocks are counted by the scatter that was seen."""
    wide = {"se_low": 0.1, "se_high": 0.1}
    plain, unseen, mixed = judged(
        connection,
        wide | {"unseen_low": 0.0, "unseen_high": 0.0, "mean": 0.2},
        wide | {"unseen_low": 0.01, "unseen_high": 0.01, "mean": 0.2},
        {"se_low": None, "se_high": None, "unseen_low": None, "unseen_high": None, "mean": 0.06},
    )
    assert plain["blocks_needed"] > unseen["blocks_needed"]
    assert mixed["blocks_needed"] is not None
    assert {row["verdict"] for row in (plain, unseen, mixed)} == {"inconclusive"}


def test_values_that_are_equal_in_every_block_are_decided_before_a_look(
    connection: Connection,
) -> None:
    early = {"too_early": True, "share": 0.4}
    equal, scattered, other = judged(
        connection,
        early | {"se": 0.0, "mean": 0.5},
        early | {"se": 0.001, "mean": 0.5},
        {"too_early": False, "share": 0.4, "se": 0.001, "mean": 0.5},
    )
    assert [row["verdict"] for row in (equal, scattered, other)] == [
        "hurts",
        "inconclusive",
        "hurts",
    ]


def test_a_least_effect_may_be_zero(connection: Connection) -> None:
    assert judged(connection, {"mean": 0.5}, min_effect="0")[0]["verdict"] == "hurts"


@pytest.mark.parametrize("min_effect", ["-0.01", "'inf'::double"])
def test_a_least_effect_is_finite_and_not_below_zero(
    connection: Connection, min_effect: str
) -> None:
    with pytest.raises(duckdb.Error, match=r"min_effect: found .*, allowed is 0 or more"):
        judged(connection, {"mean": 0.5}, min_effect=min_effect)


def process(cell: str, side: str, wall: float, **columns: Any) -> dict[str, Any]:
    usual = {"pool": "p", "choice": "k", "device": wall / 2, "trial_id": f"{cell}{side}{wall}"}
    return {"cell": cell, "side": side, "wall": wall} | usual | columns


def test_sides_without_common_blocks_are_compared_by_welch(connection: Connection) -> None:

    b, c = [10.0, 11.0, 10.5], [12.0, 12.5, 13.0, 12.2]
    rows = [
        *(process("x", "b", ms) for ms in b),
        *(process("x", "c", ms) for ms in c),
        *(process("x", "d", ms) for ms in (1.0, 2.0)),
        *(process("y", "b", ms) for ms in (20.0, 21.0)),
        *(process("y", "c", ms) for ms in (20.0, 0.0, 22.0)),
    ]
    fill(connection, "processes", rows)
    found = {
        (row["cell"], row["clock"]): row
        for row in ask(connection, "from over_sides('processes', 'b', 'c', ln(1.03))")
    }
    assert set(found) == {(cell, clock) for cell in "xy" for clock in ("wall", "device")}
    logs_b, logs_c = [log(ms) for ms in b], [log(ms) for ms in c]
    row = found["x", "wall"]
    assert row["mean"] == pytest.approx(mean(logs_c) - mean(logs_b))
    se = sqrt(variance(logs_b) / len(b) + variance(logs_c) / len(c))
    assert (row["se"], row["se_low"], row["se_high"]) == (pytest.approx(se),) * 3
    parts = variance(logs_b) / len(b), variance(logs_c) / len(c)
    df = sum(parts) ** 2 / (parts[0] ** 2 / (len(b) - 1) + parts[1] ** 2 / (len(c) - 1))
    assert row["df"] == int(df)
    assert found["y", "wall"]["mean"] == pytest.approx((log(22 / 20) - log(21 / 20)) / 2)
    assert row["b_choice"] is None and row["c_choice"] is None


def test_a_side_of_several_choices_reaches_further_than_welch(connection: Connection) -> None:
    times = {"b": [10.0, 10.1, 9.9, 10.0, 10.05], "c": [11.0, 11.1, 10.9, 11.0, 22.0]}
    rows = [
        process("x", side, ms, choice="slow" if ms == 22 else "k")
        for side, of in times.items()
        for ms in of
    ]
    fill(connection, "processes", rows)
    sql = "from over_sides('processes', '{}', '{}', ln(1.03)) where clock = 'wall'"
    (row,) = ask(connection, sql.format("b", "c"))
    (back,) = ask(connection, sql.format("c", "b"))
    assert row["se_low"] < row["se_high"] and row["se"] not in (row["se_low"], row["se_high"])
    assert row["c_choice"] == "usually 1.00; in 1 of 5 processes 2.00"
    assert row["b_choice"] is None
    assert (back["se_low"], back["se_high"]) == (
        pytest.approx(row["se_high"]),
        pytest.approx(row["se_low"]),
    )
    assert back["mean"] == pytest.approx(-row["mean"])
