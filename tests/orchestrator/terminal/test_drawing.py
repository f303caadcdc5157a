"""Tables of answers at a terminal's width."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from cudnn_sweep.analysis.results.marked import MarkedColumn
from cudnn_sweep.orchestrator.terminal.drawing import _least, draw, draw_marked

DRAWN = Path(__file__).with_name("drawn.txt")  # by width


def column(
    name: str, *texts: str, is_number: bool = False, intervals: Sequence[str] = ()
) -> MarkedColumn:
    return MarkedColumn(name=name, texts=texts, is_number=is_number, intervals=intervals)


CELLS = column(
    "cell",
    "mnist training 100x1x28x28 fixed tf32",
    "conv unet/conv1_3x3_64 forward_backward 8x64x256x256 fixed tf32",
)
RATIO = column("ratio", "0.97", "1.35", is_number=True, intervals=(" (0.96 to 0.98)", ""))
VERDICT = column("wall_in_words", "helps", "not measured: throttled")
WORDS = column("by_choice", "", "usually 1.00; in 1 of 6 processes 1.20, one choice in 4 processes")
UUID = column("gpu_uuid", *["GPU-5f3c1b9a-7d2e-4c8f-9a61-0b7e4d2f8c35"] * 2)
ALL = (CELLS, RATIO, VERDICT, WORDS, UUID)


def rows(width: int | None, *columns: MarkedColumn) -> list[str]:
    return draw_marked(columns or ALL, width).splitlines()


def test_tables_of_each_width_are_as_kept() -> None:
    """Intervals go first, then heads get more lines, then columns go, then texts are cut."""
    kept = {
        None if head == "any" else int(head): drawn
        for head, _, drawn in (part.partition("\n") for part in DRAWN.read_text().split("=== ")[1:])
    }
    assert len(kept) == 12
    for width, drawn in kept.items():
        more = [column(f"more_{n}", "7", "8", is_number=True) for n in range(2)]
        assert draw_marked([*ALL, *more], width) == drawn


def test_intervals_go_first() -> None:
    whole, narrow = rows(None), rows(217)
    assert max(map(len, whole)) == 218 and rows(218) == whole
    assert "(0.96 to 0.98)" in whole[1] and "0.96" not in "".join(narrow)
    needed = max(map(len, narrow))
    assert rows(needed) == narrow != rows(needed - 1), "as wide as it needs"


def test_then_heads_have_more_lines() -> None:
    named = column("a_long_name_of_counts", "1", "2", is_number=True)
    whole = "ratio  a_long_name_of_counts"
    assert rows(len(whole) + 15, RATIO, named)[0].split() == whole.split()
    assert rows(len(whole), RATIO, named)[0] == whole
    broken = rows(len(whole) - 1, RATIO, named)
    assert [line.split() for line in broken] == [
        ["a"],
        ["long"],
        ["name"],
        ["of"],
        ["ratio", "counts"],
        ["0.97", "1"],
        ["1.35", "2"],
    ]


@pytest.mark.parametrize("width", range(30, 200, 17))
def test_no_line_is_wider_than_the_terminal_and_cells_stay_apart(width: int) -> None:
    drawn = rows(width)
    assert max(map(len, drawn)) <= width
    first, second = (line.split("  ")[0] for line in drawn[-2:])
    assert first != second


def test_an_answer_without_rows_is_empty() -> None:
    assert draw_marked([], 80) == draw_marked([column("cell")], 80) == ""


def test_all_columns_are_a_table_or_a_block_a_row() -> None:
    answer = pa.table({"name": ["a", "bb"], "count": [1, None], "text": ["x" * 30, "y" * 30]})
    table = draw(answer, None)
    assert draw(answer, 47) == table
    assert [line.split() for line in table.splitlines() if "─" not in line][1:] == [
        ["name", "count", "text"],
        ["a", "1", "x" * 30],
        ["bb", "y" * 30],
        [],
    ]
    blocks = f"name   a\ncount  1\ntext   {'x' * 30}\n\nname   bb\ntext   {'y' * 30}\n"
    assert draw(answer, 46) == blocks


def test_a_column_can_be_cut_to_what_still_tells_its_rows_apart() -> None:
    """Numbers and texts of up to 24 characters stay whole; one word, such as an id, keeps 12; a head is whole."""
    text, id_ = "some words " * 4, "GPU-5f3c1b9a-7d2e-4c8f-9a61-0b7e4d2f8c35"
    assert _least(column("n", "1" * 40, is_number=True), 24) == 40
    assert _least(column("n", "x" * 24), 20) == 24
    assert _least(column("n", "x" * 25), 20) == 12
    assert _least(column("uuid", id_, id_), 24) == 12
    assert _least(column("by_choice", text, id_), 24) == 24
    assert _least(column("by_choice", text), 100) == len(text)
    assert _least(column("cell", id_), 24) == 24, "a cell's name is no id"
    assert _least(column("a_head_that_is_much_too_lengthy_here", id_), 24) == 12
    assert _least(column("lengthyheadings", id_), 24) == 15
