from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from cudnn_sweep.analysis.answering.cell_names import stored_names
from cudnn_sweep.analysis.answering.verdicts import break_evens, verdicts
from cudnn_sweep.analysis.storing.store import open_store
from cudnn_sweep.orchestrator.showing.verdict_table import ratio_text, verdict_table

REFERENCE = Path(__file__).parents[3] / "analysis/reference"


@pytest.mark.parametrize("sweep_id", ["networks-cycle", "networks-lengths"])
def test_a_cell_of_a_network_takes_two_lines_and_its_name_is_its_alone(sweep_id: str) -> None:
    store = open_store(str(REFERENCE))
    found, paid = verdicts(store, sweep_id), break_evens(store, sweep_id)
    for width in (80, 100, 120, 160):
        table = verdict_table(found, paid, *stored_names(store, sweep_id), width)
        names = list(table.columns[0].cells)
        assert len(set(names)) == len(found)
        console = Console(width=width)
        with console.capture() as drawn:
            console.print(table)
        lines = drawn.get().splitlines()
        heads = next(index for index, line in enumerate(lines) if line.startswith("cell")) + 1
        assert len(lines) - heads <= 2 * len(found)
        assert max(map(len, lines)) <= width


def test_a_verdict_so_far_leaves_room_for_the_other_columns() -> None:
    store = open_store(str(REFERENCE))
    found = [
        replace(verdict, wall_in_words="so far faster (2 blocks)")
        for verdict in verdicts(store, "networks-lengths")
    ]
    paid, names = break_evens(store, "networks-lengths"), stored_names(store, "networks-lengths")
    console = Console(width=80)
    with console.capture() as drawn:
        console.print(verdict_table(found, paid, *names, 80))
    text = drawn.get()
    assert "so far faster" in text and "(2 blocks)" in text
    ratios = [verdict.device_ratio for verdict in found if verdict.device_ratio is not None]
    assert ratios and all(f"{ratio:.3f}" in text for ratio in ratios)


def test_an_interval_that_says_nothing_is_told_in_words() -> None:
    verdict = replace(verdicts(open_store(str(REFERENCE)), "networks-lengths")[0], ratio=7.019)
    assert ratio_text(replace(verdict, ratio_low=6.5, ratio_high=7.6)) == "7.019 (6.500–7.600)"
    vast = replace(verdict, ratio_low=0.0, ratio_high=1.9e19)
    assert ratio_text(vast).endswith(" (too few blocks)")
