"""The lines that follow a contrast's headline, from verdicts that are made up."""

from types import SimpleNamespace
from typing import Any

from cudnn_sweep.analysis.results.verdicts import (
    LINES_SHOWN,
    OfContrast,
    blocks_left_out,
    further_lines,
)


def verdict(**changes: Any) -> Any:
    lines = {"cell_id": "a", "headline": None, "by_choice": None, "errors": None}
    left_out = {"split_blocks": 0, "doubtful_blocks": 0, "unpaired_blocks": 0}
    return SimpleNamespace(**lines | left_out | changes)


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
        "1 block left out because the two trials ran on two GPUs or in two launches.",
        "2 blocks left out because a trial shared the GPU or both trials were throttled.",
    ]
    (line,) = blocks_left_out([verdict(unpaired_blocks=1), verdict(unpaired_blocks=2)])
    assert line.startswith("3 blocks left out because one of the two trials failed")


def test_rows_are_about_one_cell_if_all_that_tells_cells_apart_agrees() -> None:
    hashes = {"cell_id": "c", "env_hash": "e", "software_hash": "s", "workload_hash": None}
    more = {"contrast": "x", "other_settings": "", "loop_kind": "closed", "in_turns": True}
    row = OfContrast(**hashes, **more)
    assert row.key == ("c", "e", "s", None)
    assert row.identity == ("c", "e", "s", None, "x", "", "closed", True)
