"""A sweep whose blocks resemble the ones before them gets a warning; others do as often as chance has it."""

import numpy as np
import pyarrow as pa
import pytest

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.report.content import gather
from cudnn_sweep.analysis.report.payload import payload
from cudnn_sweep.analysis.store.store import Store
from tests.analysis.conftest import in_cell, make_pair
from tests.studies.parts.made_rows import made_rows, open_rows
from tests.studies.parts.noise import Array

BLOCKS, SCATTER = 5, 0.01


def sweeps(count: int, cells: int, correlation: float) -> pa.Table:
    """Rows of so many, in which a block's log ratio has this correlation with the one before."""
    generator = np.random.default_rng(5)
    drawn = generator.standard_normal((count * cells, BLOCKS))
    logs: Array = np.empty_like(drawn)
    logs[:, 0] = drawn[:, 0]
    for block in range(1, BLOCKS):
        new = np.sqrt(1 - correlation**2) * drawn[:, block]
        logs[:, block] = correlation * logs[:, block - 1] + new
    of_cell = generator.uniform(0.1, 3, (count * cells, 1))  # each has a scatter of its own
    times_ms = np.exp(np.stack([np.zeros_like(logs), SCATTER * of_cell * logs], axis=-1))
    rows = made_rows(times_ms, np.ones_like(times_ms))
    sweep_ids = [f"{correlation} {int(cell) // cells}" for cell in rows["cell_id"].to_pylist()]
    column = rows.column_names.index("sweep_id")
    return rows.set_column(column, "sweep_id", pa.array(sweep_ids))


@pytest.mark.parametrize(("correlation", "least", "most"), [(0.0, 0.01, 0.1), (0.6, 0.9, 1.0)])
def test_blocks_that_resemble_each_other_are_found_and_others_as_often_as_chance_has_it(
    correlation: float, least: float, most: float
) -> None:
    count = 100
    with open_rows(sweeps(count, 24, correlation)) as database:
        (row,) = database.ask("environment").to_pylist()
    assert least <= len(row["resembling_sweeps"] or ()) / count <= most


def test_a_report_counts_the_sweeps(store: Store) -> None:
    """One drifts, in the other every second block is alike."""
    for sweep_id, ratios in (("drift", range(BLOCKS)), ("other", [0, 1, 0, 1, 0])):
        for block, ratio in enumerate(ratios):
            pair = make_pair(block, 10.0, 10.0 + ratio / 10, sweep_id=sweep_id)
            store.write(*(in_cell(each, f"cell-{n}") for each in pair for n in range(4)))
    with open_database(store) as database:
        told = payload(gather(database, ["results"], [], 0.03))
    assert told.warnings == ["1 sweep: blocks resemble the blocks before them."]
