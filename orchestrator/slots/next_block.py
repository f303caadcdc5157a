"""Which block of a plan is asked for next: the next one, or what decides the next cell soonest."""

import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping

from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.orchestrator.planning.standing import Standing

NO_LOOK = (sys.maxsize,)  # all blocks come before it
TRIES = 5  # a look at results that are being written may fail
AGAIN_S = 1.0


class BlockQueue:
    """A plan without looks: its blocks in order. Else each cell's blocks up to a look, then those of open cells up
    to their next one.

    Results are looked at when nothing else is left to hand out: so cells are judged together, and which blocks
    are asked for depends on the plan and on what is recorded alone. A cell's blocks up to its next look run
    side by side; past it none is asked for, so that a look has the blocks that it was to have. Open cells that
    are behind catch up first, so that a sweep cut short and resumed judges its cells together, too.

    A block that is to find a warm compute cache waits for the block that fills it.
    """

    def __init__(
        self, session: Session, ask: Callable[[], Mapping[str, Standing]], *, gpu: bool = False
    ) -> None:
        """`ask`: how the cells stand as recorded so far, where that decides; `gpu`: trials have a compute cache."""
        plan = session.plan.cell_by_cell() if session.cell_by_cell else session.plan
        begun, owed = session.begun, session.job.blocks_owed if session.job else 0
        self._looks = plan.looks or NO_LOOK
        self._ask = ask
        self._waiting: dict[str, deque[tuple[int, int]]] = {}
        """By cell, each block with its number among the cell's, in the plan's order."""
        self._filled_by: dict[int, int | None] = {}
        """Of a block that is to find a warm compute cache, the block of the plan that fills it."""
        block_of: dict[tuple[str, int], int] = {}
        for block, trials in plan.blocks():
            first, cell_id = trials[0], trials[0].cell.cell_id
            self._waiting.setdefault(cell_id, deque()).append((first.replicate, block))
            block_of[cell_id, first.replicate] = block
            if gpu and first.cache_generation != first.replicate:
                self._filled_by[block] = block_of.get((cell_id, first.cache_generation))
        self._reached = {cell_id: begun.get(cell_id, 0) for cell_id in self._waiting}
        self._cell_of = {block: c for c, blocks in self._waiting.items() for _, block in blocks}
        self._owed = {
            block for blocks in self._waiting.values() for number, block in blocks if number < owed
        }
        """First blocks of a cell, which run although time is up."""
        self._running: set[int] = set()
        self._ready: OrderedDict[int, None] = OrderedDict()
        for cell_id, reached in self._reached.items():
            self._go_to(cell_id, next(look for look in self._looks if look >= reached))
        ready = self._ready
        self._ready = OrderedDict.fromkeys(block for block, _ in plan.blocks() if block in ready)

    def take(self) -> int | None:
        """Return the block to run now, or None if there is none, or each waits for one that runs."""
        if not self._ready:
            self._look()
        block = next((block for block in self._ready if not self._waits(block)), None)
        if block is not None:
            del self._ready[block]
            self._running.add(block)
        return block

    def side_by_side(self) -> int:
        """Return how many blocks may run at once now."""
        return sum(not self._waits(block) for block in self._ready)

    def _waits(self, block: int) -> bool:
        """Whether the block that fills its compute cache has not run."""
        filled_by = self._filled_by.get(block)
        return filled_by in self._ready or filled_by in self._running

    def done(self, block: int) -> None:
        """It has run: what is recorded of it is durable."""
        self._running.discard(block)

    def is_over(self) -> bool:
        if not self._ready and not self._running:
            self._look()
        return not self._ready and not self._running

    def time_is_up(self) -> None:
        """No further block, but for those without which nothing can be said."""
        self._ready = OrderedDict.fromkeys(block for block in self._ready if block in self._owed)
        self._waiting.clear()

    def stop(self) -> None:
        self._ready.clear()
        self._waiting.clear()

    def _look(self) -> None:
        """Let go on whichever cells have all blocks of their look, and are open."""
        busy = {self._cell_of[block] for block in self._running}
        due = [cell_id for cell_id in self._waiting if cell_id not in busy]
        if not due or self._looks == NO_LOOK:
            return
        found = self._standings()
        open_cells = []
        for cell_id in due:
            standing = found.get(cell_id)
            if standing is None or not standing.is_open:
                del self._waiting[cell_id]
            elif standing.recorded_blocks < self._reached[cell_id]:
                del self._waiting[cell_id]  # a trial was lost: the next launch runs it
            else:
                open_cells.append((standing.seconds_to_decide, cell_id))
        for reached in sorted({self._reached[cell_id] for _, cell_id in open_cells}):
            later = [look for look in self._looks if look > reached]
            for _, cell_id in sorted(open_cells):
                if self._reached[cell_id] == reached:
                    self._go_to(cell_id, later[0])
            if self._ready:
                return

    def _go_to(self, cell_id: str, look: int) -> None:
        self._reached[cell_id] = look
        blocks = self._waiting[cell_id]
        while blocks and blocks[0][0] < look:
            self._ready[blocks.popleft()[1]] = None

    def _standings(self) -> Mapping[str, Standing]:
        for _ in range(TRIES - 1):
            try:
                return self._ask()
            except (AnalysisError, OSError):
                time.sleep(AGAIN_S)
        return self._ask()
