"""The sentence of a contrast, from its verdicts alone."""

from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.analysis.results.verdicts import headline


def sentence(*verdicts: tuple[str, int, str], of_cells: int = 0) -> str:
    rows: Any = [
        SimpleNamespace(
            wall_verdict=verdict,
            blocks=blocks,
            wall_in_words=words,
            contrast="benchmark: false → true",
        )
        for verdict, blocks, words in verdicts
    ]
    head, _, text = headline(rows, 0.03, of_cells).rpartition(": ")
    assert head.startswith("benchmark")
    return text


def many(verdict: str, count: int, blocks: int = 3, words: str = "") -> list[tuple[str, int, str]]:
    return [(verdict, blocks, words)] * count


@pytest.mark.parametrize(
    ("verdicts", "of_cells", "told"),
    [
        (many("helps", 2), 0, "2 of 2 cells decided (helps in 2)."),
        (
            [*many("hurts", 1), *many("equivalent", 1), *many("fails", 1), *many("no_effect", 1)],
            4,
            (
                "4 of 4 cells decided (fails in 1, hurts in 1, "
                "makes no difference of 3% or more in 1, cannot have an effect in 1)."
            ),
        ),
        (many("so_far_faster", 1), 0, "0 of 1 cell decided, 1 looks faster so far, none slower."),
        (many("so_far_faster", 2), 0, "0 of 2 cells decided, 2 look faster so far, none slower."),
        (many("so_far_slower", 2), 0, "0 of 2 cells decided, none look faster so far, 2 slower."),
        (
            [*many("undecided", 2), *many("undecided", 1, blocks=1)],
            0,
            "0 of 3 cells decided, 2 open, 1 with one block.",
        ),
        (many("helps", 1), 3, "1 of 3 cells decided (helps in 1), 2 without a block."),
        (many("inconclusive", 1), 1, "0 of 1 cell decided, 1 inconclusive."),
    ],
)
def test_every_cell_is_counted_once(
    verdicts: list[tuple[str, int, str]], of_cells: int, told: str
) -> None:
    assert sentence(*verdicts, of_cells=of_cells) == told


def test_reasons_of_cells_that_were_not_measured_are_named_once() -> None:
    lost = [
        *many("not_measured", 2, words="not measured: throttled"),
        *many("not_measured", 1, words="not measured: failed"),
    ]
    assert "3 not measured (failed, throttled)." in sentence(*lost)


def test_cells_that_look_faster_and_slower_are_counted_beside_each_other() -> None:
    both = [*many("so_far_faster", 1), *many("so_far_slower", 1)]
    assert sentence(*both) == "0 of 2 cells decided, 1 looks faster so far, 1 slower."
