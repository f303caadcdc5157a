"""Chooses the block that runs next."""

import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.orchestrator.planning.decided import Standing, name_of
from cudnn_sweep.orchestrator.planning.plan import Trial
from cudnn_sweep.orchestrator.planning.session import Session

NO_LOOK = (sys.maxsize,)  # for a plan that has no interim analysis
TRIES = 5  # reading results that are being written may fail


@dataclass(kw_only=True, slots=True)
class _Cell:
    released: int
    """Number of blocks of the cell that may run before its next interim analysis."""
    waiting: deque[Trial] = field(default_factory=deque)
    """First trials of the blocks that may not run yet, in the plan's order."""
    out: frozenset[str] = frozenset()
    """Names of the configs that lost the race."""


class BlockQueue:
    """Hands out a plan's blocks. Undecided cells get blocks up to their next interim analysis.

    Records are read only when no block is left to hand out. Cells with fewer interim analyses get
    blocks first. A block that needs a warm compute cache waits until another block has filled it.
    """

    def __init__(
        self, session: Session, ask: Callable[[], Mapping[str, Standing]], *, gpu: bool = False
    ) -> None:
        """`ask` returns the state of each cell's verdict. `gpu` is true if trials run on a GPU."""
        plan = session.plan.cell_by_cell() if session.cell_by_cell else session.plan
        self._looks = plan.looks or NO_LOOK
        self._ask = ask
        self._retries = session.retries.keys()
        self._owed = session.job.blocks_owed if session.job else 0
        """Number of blocks of each cell that run even if the time is up."""
        self._cells: dict[str, _Cell] = {}
        # First trials of the blocks that may run next and of running blocks, by block number.
        self._ready: OrderedDict[int, Trial] = OrderedDict()
        self._running: dict[int, Trial] = {}
        self._filling: dict[tuple[str, int], int] = {}
        """The block that fills a cell's compute cache, by cell_id and the cache's generation."""
        self._trials = dict(plan.blocks())
        present = self._standings() if plan.is_race and plan.looks and session.begun else {}
        for block, (first, *_) in self._trials.items():
            cell_id = first.cell.cell_id
            if cell_id not in self._cells:
                begun = session.begun.get(cell_id, 0)
                look = next(look for look in self._looks if look >= begun)
                out = present[cell_id].out if cell_id in present else frozenset()
                self._cells[cell_id] = _Cell(released=look, out=out)
            if gpu and first.cache_generation == first.replicate:
                self._filling[cell_id, first.replicate] = block
            self._cells[cell_id].waiting.append(first)
            self._release(self._cells[cell_id])

    def take(self) -> int | None:
        """Return the next block, or None if no block can run now."""
        if not self._ready:
            self._look()
        block = next((block for block in self._ready if not self._waits(block)), None)
        if block is not None:
            self._running[block] = self._ready.pop(block)
        return block

    def raced_out(self, block: int) -> list[str]:
        """Return the ids of the block's trials that are not run: their configs lost a race."""
        trials = self._trials[block]
        cell = self._cells.get(trials[0].cell.cell_id)
        out = cell.out if cell else frozenset()
        return [
            trial.trial_id
            for trial in trials
            if trial.trial_id not in self._retries and out and name_of(trial.config) in out
        ]

    def side_by_side(self) -> int:
        """Return how many blocks can run at the same time now."""
        return sum(not self._waits(block) for block in self._ready)

    def _waits(self, block: int) -> bool:
        """Return whether another block must fill this block's compute cache first."""
        first = self._ready[block]
        filling = self._filling.get((first.cell.cell_id, first.cache_generation))
        return filling != block and (filling in self._ready or filling in self._running)

    def done(self, block: int) -> None:
        self._running.pop(block, None)

    def is_over(self) -> bool:
        if not self._ready and not self._running:
            self._look()
        return not self._ready and not self._running

    def time_is_up(self) -> None:
        """Drop the blocks that have not started, except the first `_owed` blocks of each cell."""
        for block, first in list(self._ready.items()):
            if first.replicate >= self._owed:
                del self._ready[block]
        self._cells.clear()

    def stop(self) -> None:
        self._ready.clear()
        self._cells.clear()

    def _look(self) -> None:
        """Drop decided cells. Release blocks of the others, up to their next interim analysis."""
        busy = {first.cell.cell_id for first in self._running.values()}
        due = {cell_id: cell for cell_id, cell in self._cells.items() if cell_id not in busy}
        if not due or self._looks == NO_LOOK:
            return
        standings = self._standings()
        seconds: dict[str, float] = {}
        for cell_id, cell in due.items():
            standing = standings.get(cell_id)
            # if records are missing, a trial was lost, and the next launch runs it
            if standing and standing.is_open and standing.recorded_blocks >= cell.released:
                seconds[cell_id] = standing.seconds_to_decide
                cell.out |= standing.out
            else:
                del self._cells[cell_id]
        soonest_first = [due[cell_id] for cell_id in sorted(seconds, key=lambda c: (seconds[c], c))]
        for released in sorted({cell.released for cell in soonest_first}):
            for cell in soonest_first:
                if cell.released == released:
                    cell.released = next(look for look in self._looks if look > released)
                    self._release(cell)
            if self._ready:
                return

    def _release(self, cell: _Cell) -> None:
        while cell.waiting and cell.waiting[0].replicate < cell.released:
            first = cell.waiting.popleft()
            self._ready[first.block] = first

    def _standings(self) -> Mapping[str, Standing]:
        for _ in range(TRIES - 1):
            try:
                return self._ask()
            except (AnalysisError, OSError):
                time.sleep(1.0)
        return self._ask()
