"""Stored blocks in random orders, each order looked at as a launch until decided looks at its blocks.

Would the verdict be another one if the blocks had come in another order? The macros that judge are those of
every question. Where the stored blocks of a cell end before it is decided, no more is known of that order.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cudnn_sweep.analysis.engine.database import Database
from cudnn_sweep.analysis.results.contrast import Contrast
from cudnn_sweep.analysis.results.min_effect import MIN_EFFECT

Texts: TypeAlias = NDArray[Any]
Counts: TypeAlias = NDArray[np.int_]

TARGET = 0.98
AT_ONCE = 50  # replays asked together: some seconds, and little memory
DECIDED = ("helps", "hurts", "equivalent")
UNDECIDED, OPEN, HOPELESS = "inconclusive", "open", "hopeless"
MOST_BLOCKS_NEEDED = 1001  # more than any that is told
FEW = 3  # blocks: with fewer no cell is hopeless
Z = 1.96  # standard errors at the ends of a 95% interval

# What a verdict on wall time takes of each block (as in `contrast_verdicts`), without those whose verdict
# has another reason than their times.
BLOCKS = """
with pairs as (
    from block_pairs($field, $baseline, $candidate, $sweep_id)
),

judged_by_times as (
    select judged_cell
    from pairs
    group by judged_cell
    having
        any_value(no_effect_reason) is null
        and count(*) filter (where candidate_failed and not baseline_failed)
        <= count(*) filter (where baseline_failed and not candidate_failed)
)

select
    judged_cell as cell,
    any_value(cell_id) over (partition by judged_cell) as cell_id,
    log_ratio(candidate_ms, baseline_ms) as observed,
    choice,
    other_settings as pool,
    wall_elsewhere as elsewhere,
    wall_error as error
from pairs
semi join judged_by_times using (judged_cell)
where pairing = 'paired' and log_ratio(candidate_ms, baseline_ms) is not null
order by judged_cell, sweep_id, block
"""

# Of each replay a verdict beside the other cells of the same replay: its number stands for the clock.
VERDICTS = """
with logs as (
    select
        unnest($cell) as cell,
        unnest($replay) as clock,
        unnest($observed) as observed,
        unnest($choice)::text as choice,
        unnest($pool)::text as pool,
        unnest($elsewhere)::double as elsewhere,
        unnest($error)::double as error,
        $share::double as share
),

estimates as materialized (
    select
        *,
        true as family,
        false as too_early
    from over_choices('logs')
)

select
    cell,
    clock as replay,
    verdict,
    blocks_alone
from judged('estimates', $min_effect, $of_cells)
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredCell:
    """A cell's blocks, in the order in which they were asked for."""

    cell_id: str
    observed: Sequence[float]
    """Log ratios of wall time."""
    choices: Sequence[str | None]
    errors: Sequence[float | None]
    """Their variances, by the blocks' own rounds."""
    elsewhere: float | None
    """The variance that they may borrow."""
    pool: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayedCell:
    """What became of one cell in all replays."""

    cell_id: str
    blocks: int
    verdict: str
    """Of all blocks as a fixed number."""
    ended: Mapping[str, int]
    """How many replays ended in each state; open: when no further look was among the blocks."""
    asked: float
    """Blocks that a replay took, in the mean."""

    @property
    def is_decided(self) -> bool:
        return self.verdict in DECIDED

    @property
    def found(self) -> int:
        """Replays that were decided."""
        return sum(self.ended.get(each, 0) for each in DECIDED)

    @property
    def same(self) -> int:
        """Of them, those with the verdict of all blocks."""
        return self.ended.get(self.verdict, 0) if self.is_decided else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Replayed:
    """All replays of one contrast of a sweep; or of several together."""

    too_few: int
    """Cells with no more blocks than a first look takes."""
    replays: int
    cells: Sequence[ReplayedCell]
    """Cells that could stop before their last block."""

    @property
    def decided(self) -> Sequence[ReplayedCell]:
        return [cell for cell in self.cells if cell.is_decided]

    @property
    def same(self) -> int:
        return sum(cell.same for cell in self.cells)

    @property
    def turned(self) -> int:
        """Replays of decided cells that another verdict decided."""
        return sum(cell.found - cell.same for cell in self.decided)

    @property
    def early(self) -> int:
        """Replays of undecided cells that were decided."""
        return sum(cell.found for cell in self.cells if not cell.is_decided)

    @property
    def out_of_reach(self) -> int:
        """Replays of decided cells that stopped undecided."""
        return self.replays * len(self.decided) - self.same - self.turned - self.used_up

    @property
    def used_up(self) -> int:
        """Replays of decided cells that were open when their blocks ended."""
        return sum(cell.ended.get(OPEN, 0) for cell in self.decided)

    @property
    def asked(self) -> float:
        """Blocks of a cell that all blocks decide, in the mean over replays."""
        return sum(cell.asked for cell in self.decided) / max(len(self.decided), 1)

    @property
    def blocks(self) -> float:
        """All blocks of such a cell, in the mean."""
        return sum(cell.blocks for cell in self.decided) / max(len(self.decided), 1)

    @property
    def share(self) -> float:
        """Of the replays that were decided, those with the verdict of all blocks; 1 where none was."""
        decided = self.same + self.turned + self.early
        return self.same / decided if decided else 1.0

    @property
    def interval(self) -> tuple[float, float]:
        """Of the share, 95%: Wilson's, as if each cell were one replay, for those of a cell share their blocks."""
        cells = max(sum(cell.found > 0 for cell in self.cells), 1)
        middle = self.share + Z**2 / cells / 2
        half = Z * (self.share * (1 - self.share) / cells + (Z / cells / 2) ** 2) ** 0.5
        low, high = ((middle + end) / (1 + Z**2 / cells) for end in (-half, half))
        return max(low, 0.0), min(high, 1.0)

    @property
    def is_missed(self) -> bool:
        return self.share < TARGET


def together(every: Sequence[Replayed]) -> Replayed:
    return Replayed(
        too_few=sum(each.too_few for each in every),
        replays=max((each.replays for each in every), default=0),
        cells=[cell for each in every for cell in each.cells],
    )


def replay(
    database: Database,
    contrast: Contrast,
    looks: Sequence[int],
    replays: int,
    seed: int,
    sweep_id: str | None = None,
) -> Replayed:
    """The same for the same arguments and blocks."""
    cells = stored_cells(database, contrast, sweep_id)
    tried = [place for place, cell in enumerate(cells) if len(cell.observed) > looks[0]]
    if not tried:
        return Replayed(replays=replays, too_few=len(cells), cells=[])
    generator = np.random.default_rng(seed)
    ended: list[Texts] = []
    asked: list[Counts] = []
    for done in range(0, replays, AT_ONCE):
        orders = shuffled(cells, min(AT_ONCE, replays - done), generator)
        found = in_orders(database, cells, orders, looks)
        ended.append(found[0])
        asked.append(found[1])
    states, blocks = np.concatenate(ended), np.concatenate(asked)
    of_all = of_all_blocks(database, cells)
    return Replayed(
        replays=replays,
        too_few=len(cells) - len(tried),
        cells=[
            ReplayedCell(
                cell_id=cells[place].cell_id,
                blocks=len(cells[place].observed),
                verdict=of_all[place],
                ended=Counter(states[:, place].tolist()),
                asked=float(blocks[:, place].mean()),
            )
            for place in tried
        ],
    )


def stored_cells(
    database: Database, contrast: Contrast, sweep_id: str | None = None
) -> list[StoredCell]:
    """Those of which a verdict rests on times."""
    rows = database.query(BLOCKS, {**contrast.values(), "sweep_id": sweep_id}).to_pylist()
    cells: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault(row["cell"], []).append(row)
    return [
        StoredCell(
            cell_id=blocks[0]["cell_id"],
            observed=[block["observed"] for block in blocks],
            choices=[block["choice"] for block in blocks],
            errors=[block["error"] for block in blocks],
            elsewhere=blocks[0]["elsewhere"],
            pool=blocks[0]["pool"],
        )
        for blocks in cells.values()
    ]


def shuffled(
    cells: Sequence[StoredCell], replays: int, generator: np.random.Generator
) -> list[list[Counts]]:
    """By replay and cell: its blocks in an order of their own."""
    return [[generator.permutation(len(cell.observed)) for cell in cells] for _ in range(replays)]


def in_orders(
    database: Database,
    cells: Sequence[StoredCell],
    orders: Sequence[Sequence[Counts]],
    looks: Sequence[int],
) -> tuple[Texts, Counts]:
    """By replay and cell: the state that it ended in, as `decided` has them, and how many blocks it took."""
    there = np.array([len(cell.observed) for cell in cells])
    asked = np.zeros((len(orders), len(cells)), int)
    states = np.full(asked.shape, OPEN, object)
    spent = 0.0
    for number, look in enumerate(looks, 1):
        asked[(states == OPEN) & (there >= look)] = look
        before, spent = spent, _spent(database, number, len(looks))
        verdicts, needed = _judged(database, cells, orders, asked, spent - before)
        may = (needed <= looks[-1] - asked) | (asked < FEW)
        is_open = (verdicts == UNDECIDED) & (asked < looks[-1]) & may
        states = np.where(is_open, OPEN, np.where(verdicts == UNDECIDED, HOPELESS, verdicts))
        states[asked == 0] = OPEN
    return states, asked


def _spent(database: Database, looks: int, of: int) -> float:
    """How much of the error so many looks spend."""
    asked = {"looks": looks, "of": of}
    return float(database.query("select spent($looks, $of) as spent", asked)["spent"][0].as_py())


def of_all_blocks(database: Database, cells: Sequence[StoredCell]) -> list[str]:
    """Of each cell the verdict on all of its blocks, as a fixed number."""
    orders = [[np.arange(len(cell.observed)) for cell in cells]]
    asked = np.array([[len(cell.observed) for cell in cells]])
    verdicts, _ = _judged(database, cells, orders, asked, 1.0)
    return [str(verdict) for verdict in verdicts[0]]


def _judged(
    database: Database,
    cells: Sequence[StoredCell],
    orders: Sequence[Sequence[Counts]],
    asked: Counts,
    share: float,
) -> tuple[Texts, Counts]:
    """By replay and cell: the verdict on so many blocks, and how many more would decide it."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("cell", "replay", "observed", "choice", "pool", "elsewhere", "error")
    }
    for (replay, place), blocks in np.ndenumerate(asked):
        cell = cells[place]
        order = orders[replay][place][:blocks]
        columns["observed"] += [cell.observed[block] for block in order]
        columns["choice"] += [cell.choices[block] for block in order]
        columns["error"] += [cell.errors[block] for block in order]
        same = {"cell": place, "replay": replay, "pool": cell.pool, "elsewhere": cell.elsewhere}
        for name, value in same.items():
            columns[name] += [value] * int(blocks)
    values = {"share": share, "min_effect": MIN_EFFECT, "of_cells": len(cells)}
    found = database.query(VERDICTS, {**columns, **values})
    where = (found["replay"].to_numpy(), found["cell"].to_numpy())
    verdicts = np.full(asked.shape, UNDECIDED, object)
    verdicts[where] = found["verdict"].to_numpy()
    needed = np.full(asked.shape, MOST_BLOCKS_NEEDED)
    needed[where] = found["blocks_alone"].fill_null(MOST_BLOCKS_NEEDED).to_numpy()
    return verdicts, needed
