"""Which columns of an answer a terminal shows, which contrasts a suite names, and what verdicts say in words."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from cudnn_sweep.analysis.engine.settings import usual_texts
from cudnn_sweep.analysis.results import marked
from cudnn_sweep.analysis.results.contrast import (
    BANS,
    TWINS,
    Contrast,
    chosen,
    contrasts_among,
)
from cudnn_sweep.analysis.results.marked import MarkedColumn, marked_columns
from cudnn_sweep.analysis.results.verdicts import more_blocks, payback, third_blocks
from cudnn_sweep.analysis.store.schema import settings


def columns_of(
    answer: Mapping[str, Any], *terminal: str, names: dict[str, str] | None = None
) -> dict[str, MarkedColumn]:
    """Return the columns of a question with these marks; `names`: of the database's cells, by id."""
    question: Any = SimpleNamespace(name="made up", terminal=terminal)
    known = [{"cell_id": cell_id} for cell_id in names or {}]
    database: Any = SimpleNamespace(query=lambda _: pa.Table.from_pylist(known))
    return {
        column.name: column for column in marked_columns(database, question, pa.table(dict(answer)))
    }


def test_a_question_without_marks_shows_every_column() -> None:
    columns = columns_of({"name": ["a"], "count": [3], "empty": [None]})
    assert {name: (column.texts, column.is_number) for name, column in columns.items()} == {
        "name": (["a"], False),
        "count": (["3"], True),
        "empty": ([""], False),
    }


def test_a_marked_column_has_its_interval_where_both_ends_are_known() -> None:
    answer = {"ratio": [0.5, 0.6, 0.7], "low": [0.4, None, 0.6], "high": [0.6, 0.7, None]}
    shown = columns_of(answer, "ratio[low high]")["ratio"]
    assert shown.is_number
    first, *others = shown.intervals
    assert first.startswith(" (0.4") and "–0.6" in first
    assert others == ["", ""]
    assert shown.whole[1:] == shown.texts[1:]
    assert columns_of(answer, "ratio")["ratio"].intervals == []


def test_an_empty_column_is_left_out_unless_there_is_no_row() -> None:
    assert list(columns_of({"a": ["", "x"], "b": [None, None]}, "a", "b")) == ["a"]
    none: dict[str, list[Any]] = {"a": [], "b": []}
    assert list(columns_of(none, "a", "b")) == ["a", "b"]


def test_a_config_is_named_by_its_settings_or_its_own_columns() -> None:
    listed = columns_of({"settings": ["benchmark=true, layout=weights"]}, "config")["config"]
    assert listed.texts == ["benchmark=true layout=weights"]
    own: dict[str, list[Any]] = {column: [mark.usual] for column, mark in settings().items()}
    shown = columns_of(own | {"benchmark": [True]}, "config")["config"]
    assert shown.texts == ["benchmark=true"]


def test_a_cell_has_its_name_and_the_settings_that_it_is_compared_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {"a": "conv", "b": "pool"}
    seen: list[list[str]] = []

    def apart(rows: list[dict[str, Any]]) -> dict[str, str]:
        seen.append([row["cell_id"] for row in rows])
        return {row["cell_id"]: known[row["cell_id"]] for row in rows}

    monkeypatch.setattr(marked, "names_apart", apart)
    monkeypatch.setattr(marked, "name_of_some", lambda row: f"some {row['cell_id']}")
    answer = {"cell_id": ["a", "c"], "other_settings": ["layout=weights", None]}
    shown = columns_of(answer, "cell", names=known)["cell"]
    assert shown.texts == ["conv layout=weights", "some c"]
    assert seen == [["a"]], "only the answer's cells"


LAYOUT = Contrast(field="layout", baseline="as_given", candidate="weights")
ON = Contrast(field="benchmark", baseline="false", candidate="true")
OFF = Contrast(field="benchmark", baseline="true", candidate="false")


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ((), [ON, OFF, LAYOUT]),
        (("benchmark",), [ON, OFF]),
        (("benchmark=true",), [ON]),
        (("benchmark=false",), []),
        (("layout",), [LAYOUT]),
        (("layout", "benchmark=true"), [ON, LAYOUT]),
    ],
)
def test_a_suite_names_a_setting_or_one_value_of_it(
    named: tuple[str, ...], expected: list[Contrast]
) -> None:
    assert list(chosen([ON, OFF, LAYOUT], named)) == expected


def test_only_twins_are_compared_with_themselves() -> None:
    assert TWINS.is_twins
    assert not ON.is_twins


def test_bans_are_compared_with_no_ban_and_never_with_each_other() -> None:
    usual = usual_texts() | {"benchmark": "false"}
    bans = [usual | {"errata": ban} for ban in ("ConvFwd:1", "ConvFwd:2")]
    assert contrasts_among([usual, *bans]) == (BANS,)
    assert contrasts_among(bans) == ()
    assert contrasts_among([usual | {"benchmark": "true"}, usual]) == (ON,)


def verdict(**changes: Any) -> Any:
    usual = {"cell_id": "a", "wall_verdict": "undecided", "blocks": 2, "block_s": 60.0}
    return SimpleNamespace(**usual | {"blocks_needed": None} | changes)


@pytest.mark.parametrize(
    ("verdicts", "time"),
    [
        ([verdict()], "about 1 minute"),
        ([verdict(blocks=1)], "about 2 minutes"),
        ([verdict(), verdict()], "about 1 minute"),
        ([verdict(), verdict(cell_id="b", wall_verdict="so_far_faster")], "about 2 minutes"),
        ([verdict(block_s=1.0)], "about 1 minute"),
        ([verdict(block_s=59.0 * 60)], "about 59 minutes"),
    ],
)
def test_a_launch_says_how_long_the_third_blocks_of_open_cells_take(
    verdicts: list[Any], time: str
) -> None:
    expected = f"gives each open cell its third block ({time} of one GPU)"
    assert third_blocks(verdicts) == expected


@pytest.mark.parametrize("decided", [verdict(blocks=3), verdict(wall_verdict="helps")])
def test_cells_with_three_blocks_or_a_verdict_need_no_third(decided: Any) -> None:
    assert third_blocks([decided]) is None


def test_the_open_cell_that_is_decided_soonest_is_named() -> None:
    cells = [verdict(blocks=3, blocks_needed=needed) for needed in (8, 2, None)]
    assert list(more_blocks(cells)) == [
        "About 2 more blocks would decide the first of 2 open cells."
    ]
    assert list(more_blocks([verdict(blocks=3, blocks_needed=1)])) == [
        "About 1 more block would decide an open cell."
    ]
    assert list(more_blocks([verdict(blocks=2, blocks_needed=1)])) == []


@pytest.mark.parametrize(
    ("outcome", "iterations", "text"),
    [
        ("after", 120.0, "after 120"),
        ("until", 120.0, "ahead until 120"),
        ("after", None, "after"),
        ("never", 120.0, "never"),
        ("at_once", None, "at once"),
        ("open loop", None, "always searching"),
        ("inconclusive", 5.0, "?"),
    ],
)
def test_a_break_even_point_is_a_count_of_iterations_or_words(
    outcome: str, iterations: float | None, text: str
) -> None:
    row: Any = SimpleNamespace(outcome=outcome, break_even_iterations=iterations)
    assert payback(row) == text
