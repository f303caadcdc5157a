"""Which side a text means, which versions stand for a mixed side, and which records a condition keeps."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from cudnn_sweep.analysis.compare.comparison import (
    MOST_LISTED,
    PARTS,
    SOFTWARE,
    Comparison,
    NamedSide,
    _asking,
    compare,
    find_side,
)
from cudnn_sweep.analysis.errors import QueryError

SIDES = [
    NamedSide(kind=kind, name=name)
    for kind, name in (
        ("torch", "2.11.0"),
        ("torch", "2.12.0"),
        ("gpu", "NVIDIA H200"),
        ("sweep", "night-h200"),
        ("sweep", "2.11.0-again"),
    )
]


@pytest.mark.parametrize(
    ("text", "side"),
    [
        ("2.11.0", SIDES[0]),
        ("2.12", SIDES[1]),
        ("h200", SIDES[2]),
        ("sweep=h200", SIDES[3]),
        ("torch=2.11.0", SIDES[0]),
        ("again", SIDES[4]),
    ],
)
def test_a_full_name_wins_and_a_gpu_before_sweeps_named_after_it(
    text: str, side: NamedSide
) -> None:
    assert find_side(text, SIDES) == side


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2.1", r"2.1 may mean .*torch=2.11.0, torch=2.12.0.*. Name one of them as KIND=NAME"),
        (
            "torch=2.1",
            r"torch=2.1 may mean torch=2.11.0, torch=2.12.0. Name one of them as KIND=NAME",
        ),
        ("speed=fast", "unknown kind 'speed'. Allowed are"),
        ("A100", r"A100: no results match. There are .*gpu=NVIDIA H200"),
        ("gpu=2.11.0", r"no results match. There are gpu=NVIDIA H200\.$"),
        ("torch=", r"no results match. There are torch=2.11.0, torch=2.12.0\.$"),
    ],
)
def test_a_text_that_means_no_side_or_several_is_refused(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        find_side(text, SIDES)


def test_of_many_names_the_last_are_listed() -> None:
    def listed(count: int) -> str:
        names = [NamedSide(kind="sweep", name=f"s{number:03}") for number in range(count)]
        with pytest.raises(QueryError) as raised:
            find_side("gpu", names)
        return str(raised.value).partition("There are ")[2]

    assert listed(MOST_LISTED).count("sweep=") == MOST_LISTED
    assert listed(MOST_LISTED + 1).count("sweep=s") == MOST_LISTED
    assert listed(MOST_LISTED + 1).endswith(", sweep=....")
    assert "s000" not in listed(MOST_LISTED + 1)
    with pytest.raises(QueryError, match="no results at all"):
        find_side("gpu", [])


def comparison(a: list[str], b: list[str]) -> Comparison:
    parts: Any = {part: ["1"] for part in PARTS}
    return Comparison(
        a=SIDES[0],
        b=SIDES[1],
        rows=pa.table({}),
        a_parts=parts | {SOFTWARE[0]: a},
        b_parts=parts | {SOFTWARE[0]: b},
        edited=(),
        slowest=None,
    )


@pytest.mark.parametrize(
    ("a", "b", "versions"),
    [
        (["1"], ["2"], None),
        (["1"], ["1"], None),
        (["1", "2"], ["2"], ["2"]),
        (["1", "2", "3"], ["1", "2"], ["2"]),
        (["1", "2"], ["3"], ["2", "3"]),
        (["1"], ["2", "3"], ["1", "3"]),
    ],
)
def test_mixed_sides_are_compared_at_the_newest_version_that_both_have(
    a: list[str], b: list[str], versions: list[str] | None
) -> None:
    mixed = comparison(a, b).mixed
    assert mixed == ({} if versions is None else {SOFTWARE[0]: versions})


class Database:
    """Records whose columns have these values."""

    def __init__(self, *values: str) -> None:
        self.asked: list[str] = []
        self._values = list(values)

    def query(self, sql: str, values: Any = None) -> pa.Table:
        self.asked.append(sql)
        return pa.table({"value": self._values})


def test_conditions_on_one_column_hold_if_one_does_and_on_several_if_all_do() -> None:
    database: Any = Database("conv", "pool")
    _asking(database, ["workload=conv", "workload=pool", "problem=conv"])("select 1")
    sql = database.asked[-1]
    assert sql.count(" in (") == 2
    assert "'conv', 'pool'" in sql
    plain: Any = Database()
    _asking(plain, [])("select 1")
    assert plain.asked[-1].strip() == "select 1"


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("speed=1", r"--where speed=1: there is no column 'speed'. Write COLUMN=VALUE"),
        ("workload=net", "--where workload=net: no record has this value. Found conv"),
    ],
)
def test_conditions_on_what_is_not_there_are_refused(where: str, message: str) -> None:
    database: Any = Database("conv")
    with pytest.raises(QueryError, match=message):
        _asking(database, [where])


def test_a_pair_counts_once_however_many_versions_it_was_measured_in() -> None:
    rows = [
        {"cell_id": cell, "settings": settings, "verdict": verdict, "device_verdict": None}
        for cell, settings, verdict in (
            ("x", "on", "hurts"),
            ("x", "on", "hurts"),
            ("x", "off", "hurts"),
            ("y", "on", "helps"),
            ("y", "off", None),
        )
    ]
    found = replace(comparison(["1"], ["1", "2"]), rows=pa.Table.from_pylist(rows))
    assert found.counts() == {"helps": 1, "hurts": 2}
    assert found.counts("device_verdict") == {}
    assert found.cells == 4
    assert found.differences == {SOFTWARE[0]: f"{SOFTWARE[0]}: 1 → 1, 2"}
    assert comparison(["1"], ["1"]).differences == {}


def test_versions_of_a_mixed_side_are_shown_where_the_rows_have_them() -> None:
    mixed = comparison(["1", "2"], ["2"])
    shown = replace(mixed, rows=pa.table({f"b_{SOFTWARE[0]}": ["2"]})).marked.terminal
    assert f"b_{SOFTWARE[0]}" in shown
    assert f"a_{SOFTWARE[0]}" not in shown


class Answers:
    """A database that answers the questions of a comparison."""

    def __init__(self, rows: list[dict[str, Any]], in_both: int = 0) -> None:
        sides = [{"kind": side.kind, "name": side.name} for side in SIDES]
        parts: Any = {part: ["1"] for part in PARTS}
        self._answers: dict[str, list[dict[str, Any]]] = {
            "from side_names()": sides,
            "as trials": [{"trials": in_both}],
            "from sides_compared": rows,
            "select suite": [{"suite": "quick"}],
            "select distinct workload": [{"workload": "net.py:Net"}],
            "list_sort(list(distinct coalesce(": [parts],
        }

    def query(self, sql: str, values: Any = None) -> pa.Table:
        return pa.Table.from_pylist(next(v for k, v in self._answers.items() if k in sql))


def changed(verdict: str, cell_id: str, settings: str) -> dict[str, Any]:
    return {"verdict": verdict, "cell_id": cell_id, "settings": settings}


@pytest.mark.parametrize(
    ("rows", "slowest"),
    [
        ([changed("helps", "x", "benchmark=true")], None),
        (
            [changed("helps", "x", ""), changed("hurts", "y", "benchmark=true")],
            ("quick", "y", True),
        ),
        (
            [changed("hurts", "y", "benchmark=false"), changed("hurts", "z", "benchmark=true")],
            ("quick", "y", False),
        ),
    ],
)
def test_a_comparison_names_the_cell_that_became_slower_by_most(
    rows: list[dict[str, Any]], slowest: tuple[str, str, bool] | None
) -> None:
    answers: Any = Answers(rows)
    found = compare(answers, "2.11.0", "2.12.0", 0.03)
    assert (found.a, found.b, found.slowest) == (SIDES[0], SIDES[1], slowest)
    assert found.edited == ("net.py:Net",)
    assert found.a_parts == {part: ("0.0.1" if part == "cudnn" else "1",) for part in PARTS}


def test_a_side_is_not_compared_with_itself_nor_with_one_that_shares_its_trials() -> None:
    answers: Any = Answers([], in_both=2)
    with pytest.raises(QueryError, match="2.11.0 and torch=2.11.0 are the same side, torch=2.11.0"):
        compare(answers, "2.11.0", "torch=2.11.0", 0.03)
    with pytest.raises(QueryError, match="2 trials belong to both torch=2.11.0 and gpu=NVIDIA"):
        compare(answers, "2.11.0", "H200", 0.03)
