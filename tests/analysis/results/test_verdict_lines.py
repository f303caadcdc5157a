"""The lines that follow a contrast's headline, from verdicts that are made up."""

from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.analysis.results.verdicts import (
    FIRST_LOOK,
    LINES_SHOWN,
    BreakEven,
    OfContrast,
    blocks_left_out,
    further_lines,
    more_blocks,
    payback,
    third_blocks,
)


def verdict(**changes: Any) -> Any:
    usual = {"cell_id": "a", "wall_verdict": "undecided", "blocks": 1, "block_s": 60.0}
    lines = {"headline": None, "by_choice": None, "errors": None, "blocks_needed": None}
    left_out = {"split_blocks": 0, "doubtful_blocks": 0, "unpaired_blocks": 0}
    return SimpleNamespace(**usual | lines | left_out | changes)


@pytest.mark.parametrize(
    ("verdicts", "time"),
    [
        ([verdict()], "2 minutes"),
        ([verdict(blocks=2)], "1 minute"),
        ([verdict(blocks=2, block_s=1.0)], "1 minute"),
        ([verdict(blocks=2, block_s=89.0)], "1 minute"),
        ([verdict(blocks=2, block_s=91.0)], "2 minutes"),
        ([verdict(blocks=3)], None),
        ([verdict(wall_verdict="helps")], None),
        ([verdict(wall_verdict="so_far_faster"), verdict(wall_verdict="helps")], "2 minutes"),
        ([verdict(), verdict(wall_verdict="so_far_slower", cell_id="b")], "4 minutes"),
        ([verdict(), verdict()], "2 minutes"),
        ([], None),
    ],
)
def test_open_cells_get_their_third_block_in_so_many_minutes(
    verdicts: list[Any], time: str | None
) -> None:
    text = f"gives each open cell its third block (about {time} of one GPU)"
    assert third_blocks(verdicts) == (time and text)
    assert FIRST_LOOK == 3


@pytest.mark.parametrize(
    ("needed", "line"),
    [
        ([(3, 1)], "About 1 more block would decide one of 1 open cell."),
        ([(3, 2)], "About 2 more blocks would decide one of 1 open cell."),
        ([(3, 7), (4, 5), (3, 9)], "About 5 more blocks would decide one of 3 open cells."),
        ([(2, 1), (3, 9)], "About 9 more blocks would decide one of 1 open cell."),
        ([(3, 0), (3, None)], None),
        ([(2, 5)], None),
    ],
)
def test_the_open_cell_that_needs_the_fewest_blocks_is_named(
    needed: list[tuple[int, int | None]], line: str | None
) -> None:
    verdicts = [verdict(blocks=blocks, blocks_needed=more) for blocks, more in needed]
    assert [*more_blocks(verdicts)] == ([line] if line else [])


def test_lines_explain_the_first_verdicts_that_have_something_to_explain() -> None:
    both = verdict(cell_id="b", headline="GPU work less", errors="the same bits")
    chosen = [verdict(cell_id=f"c{number}", by_choice="usually 1.00") for number in range(9)]
    lines = further_lines([verdict(), both, *chosen], lambda each: each.cell_id)
    assert lines[:3] == ["b: GPU work less.", "b: the same bits.", "c0: usually 1.00."]
    assert len(lines) == LINES_SHOWN
    assert further_lines([verdict()], lambda each: each.cell_id) == []


def test_blocks_are_left_out_for_three_reasons() -> None:
    assert blocks_left_out([verdict(), verdict()]) == []
    found = blocks_left_out([verdict(split_blocks=1), verdict(doubtful_blocks=2)])
    assert found == [
        "1 block split over GPUs or launches, and left out.",
        "2 blocks left out because the GPU was throttled or shared.",
    ]
    (line,) = blocks_left_out([verdict(unpaired_blocks=1), verdict(unpaired_blocks=2)])
    assert line.startswith("3 blocks left out because one of the two trials failed")


@pytest.mark.parametrize(
    ("outcome", "iterations", "text"),
    [
        ("after", 1234.0, "after 1,200"),
        ("until", 3.0, "ahead until 3"),
        ("after", None, "after"),
        ("never", 5.0, "never"),
        ("at_once", None, "at once"),
        ("open loop", None, "always searching"),
        ("inconclusive", None, "?"),
    ],
)
def test_a_break_even_point_is_short(outcome: str, iterations: float | None, text: str) -> None:
    assert payback(BreakEven(outcome=outcome, break_even_iterations=iterations)) == text


def test_rows_are_about_one_cell_if_all_that_tells_cells_apart_agrees() -> None:
    hashes = {"cell_id": "c", "env_hash": "e", "software_hash": "s", "workload_hash": None}
    more = {"contrast": "x", "other_settings": "", "loop_kind": "closed", "in_turns": True}
    row = OfContrast(**hashes, **more)
    assert row.key == ("c", "e", "s", None)
    assert row.identity == ("c", "e", "s", None, "x", "", "closed", True)
