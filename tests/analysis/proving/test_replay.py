"""Replays of blocks in random orders: the vectorised looks against the questions of a launch."""

import numpy as np
import pyarrow as pa
import pytest

from cudnn_sweep.analysis.answering.contrast import Contrast
from cudnn_sweep.analysis.asking.queries import load_query
from cudnn_sweep.analysis.proving.noise import PROMISED, times_and_choices
from cudnn_sweep.analysis.proving.replay import (
    Replayed,
    ReplayedCell,
    in_orders,
    of_all_blocks,
    replay,
    stored_cells,
)
from cudnn_sweep.analysis.proving.simulation import made_rows, open_rows

LOOKS = (3, 5, 8)
EFFECTS = np.log([1.0, 1.0, 1.05, 0.92, 1.5])
BENCHMARK = Contrast(field="benchmark", baseline="false", candidate="true")
NOISES = {noise.name: noise for noise in PROMISED}


def made_up(name: str, cells: int, blocks: int, seed: int = 0) -> pa.Table:
    dice = np.random.default_rng(seed)
    effects = np.resize(EFFECTS, cells)
    logs, other = times_and_choices(NOISES[name], effects, blocks, dice)
    return made_rows(np.exp(logs), np.full(logs.shape, 30.0), other)


def with_looks(rows: pa.Table) -> pa.Table:
    return rows.append_column("looks", pa.repeat(pa.scalar(LOOKS, pa.list_(pa.int64())), len(rows)))


def asked(rows: pa.Table, name: str, column: str) -> dict[int, str]:
    """A column of a question about these rows, by cell."""
    question = load_query(name)
    with open_rows(rows) as database:
        found = database.query(question.sql, question.values({})).to_pylist()
    return {int(row["cell_id"]): row[column] for row in found}


@pytest.mark.parametrize("name", ["heavy_tails", "other_choices"])
def test_looks_at_an_order_are_those_of_a_launch(name: str) -> None:
    """A launch asks `decided` after each look; its rows are those of the blocks in this order."""
    cells, blocks = 18, LOOKS[-1]
    rows = with_looks(made_up(name, cells, blocks))
    cell, block = np.divmod(rows["block"].to_numpy(), blocks)
    lost = (cell % 5 == 4) & (block >= 6)  # the last look of some cells is not among their blocks
    rows, cell, block = rows.filter(~lost), cell[~lost], block[~lost]
    there = np.array([len(np.unique(block[cell == each])) for each in range(cells)])
    dice = np.random.default_rng(1)
    orders = [[dice.permutation(count) for count in there] for _ in range(2)]
    with open_rows(rows) as database:
        stored = sorted(stored_cells(database, BENCHMARK), key=lambda each: int(each.cell_id))
        states, taken = in_orders(database, stored, orders, LOOKS)
        of_all = of_all_blocks(database, stored)
    fixed = asked(rows.drop_columns("looks"), "helps_or_hurts", "wall_verdict")
    assert of_all == [fixed[each] for each in range(cells)]
    for number, order in enumerate(orders):
        when = np.array([np.argsort(order[c])[b] for c, b in zip(cell, block, strict=True)])
        launch, is_open = np.zeros(cells, int), np.ones(cells, bool)
        for look in LOOKS:
            launch[is_open & (there >= look)] = look
            found = asked(rows.filter(when < launch[cell]), "decided", "state")
            is_open = np.array([found[each] == "open" for each in range(cells)])
        assert taken[number].tolist() == launch.tolist()
        assert states[number].tolist() == [found[each] for each in range(cells)]
    assert len(set(states.ravel())) >= 3 and (taken < there).any()


def test_replays_repeat_with_the_seed_and_leave_out_cells_without_a_later_look() -> None:
    rows = made_up("device_bound", 12, 5)
    cell, block = np.divmod(rows["block"].to_numpy(), 5)
    with open_rows(rows.filter((cell % 3 > 0) | (block < LOOKS[0]))) as database:
        one, same, other = (replay(database, BENCHMARK, LOOKS, 20, seed) for seed in (1, 1, 2))
    assert one == same != other
    assert (one.too_few, len(one.cells)) == (4, 8)
    assert all(sum(each.ended.values()) == 20 and each.blocks == 5 for each in one.cells)


def test_a_replay_that_turns_a_verdict_or_decides_too_early_counts_against_the_target() -> None:
    def cell(verdict: str, **ended: int) -> ReplayedCell:
        return ReplayedCell(cell_id="", blocks=8, verdict=verdict, ended=ended, asked=4.0)

    right = [cell("helps", helps=99, open=1), cell("equivalent", equivalent=90, hopeless=10)]
    found = Replayed(replays=100, too_few=0, cells=right)
    assert (found.share, found.is_missed) == (1.0, False)
    assert (found.same, found.out_of_reach, found.used_up) == (189, 10, 1)
    wrong = cell("equivalent", equivalent=98, helps=2)
    early = cell("inconclusive", helps=4, hopeless=96)
    worse = Replayed(replays=100, too_few=0, cells=[*right, wrong, early])
    assert (worse.turned, worse.early) == (2, 4)
    assert worse.share == pytest.approx(287 / 293) and worse.is_missed
    low, high = worse.interval
    assert low < worse.share < high <= 1
