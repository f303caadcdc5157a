"""Which block of a plan is asked for next: the next one, or what decides the next cell soonest."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Protocol

from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.orchestrator.planning.standing import Standing

FIRST_BLOCKS = 2  # then it shows whether a setting can matter in a cell
TRIES = 5  # a look at results that are being written may fail
AGAIN_S = 1.0


class Asking(Protocol):
    """What Tune's searcher hands out."""

    def take(self, fits: Callable[[int], bool] = lambda block: True) -> int | None:
        """A block; None where there is none, for now or at all. Where the next one does not fit, time is up."""

    def done(self, block: int) -> None:
        """It has run: what is recorded of it is durable."""

    def is_over(self) -> bool: ...

    def time_is_up(self) -> None:
        """No further block, but for those without which nothing can be said."""

    def stop(self) -> None:
        """No further block."""


class InOrder:
    """All blocks of the plan."""

    def __init__(self, plan: Plan, at_once: int | None = None) -> None:
        blocks = (block for block, _ in plan.blocks())
        self._blocks = deque(chain(*plan.cell_by_cell(at_once)) if at_once else blocks)

    def take(self, fits: Callable[[int], bool] = lambda block: True) -> int | None:
        if self._blocks and not fits(self._blocks[0]):
            self.time_is_up()
        return self._blocks.popleft() if self._blocks else None

    def done(self, block: int) -> None:
        """The others do not depend on it."""

    def is_over(self) -> bool:
        return not self._blocks

    def time_is_up(self) -> None:
        self.stop()

    def stop(self) -> None:
        self._blocks.clear()


class UntilDecided:
    """Each cell's blocks up to a look, then of those cells that are open still up to their next one.

    Results are looked at when nothing else is left to hand out: so cells are judged together, and which blocks
    are asked for depends on the plan and on what is recorded alone. A cell's blocks up to its next look run
    side by side; past it none is asked for, so that a look has the blocks that it was to have. Open cells that
    are behind catch up first, so that a sweep cut short and resumed judges its cells together, too.

    Where only so many cells go on at once, each goes to its first look before others begin.
    """

    def __init__(
        self,
        plan: Plan,
        begun: Mapping[str, int],
        ask: Callable[[], Mapping[str, Standing]],
        owed: int = 0,
        at_once: int | None = None,
    ) -> None:
        """`plan`: what is not recorded yet. `begun`: by cell_id how many blocks were. `owed`: how many first
        blocks of a cell run although time is up. `at_once`: how many cells begin at a time; None: all.
        """
        self._stages = plan.looks if at_once else (FIRST_BLOCKS, *plan.looks)
        self._ask = ask
        self._waiting: dict[str, deque[tuple[int, int]]] = {}
        """By cell, each block with its number among the cell's, in the plan's order."""
        for block, trials in plan.blocks():
            cell_id = trials[0].cell.cell_id
            self._waiting.setdefault(cell_id, deque()).append((trials[0].replicate, block))
        self._reached = {cell_id: begun.get(cell_id, 0) for cell_id in self._waiting}
        self._cell_of = {block: c for c, blocks in self._waiting.items() for _, block in blocks}
        self._owed = {
            block for blocks in self._waiting.values() for number, block in blocks if number < owed
        }
        self._running: set[int] = set()
        self._ready: deque[int] = deque()
        for cell_id, reached in self._reached.items():
            self._go_to(cell_id, next(stage for stage in self._stages if stage >= reached))
        self._unsure: set[int] = set()
        """Blocks before which it shows whether a setting can matter in their cell."""
        if at_once:
            ordered, ready = chain(*plan.cell_by_cell(at_once)), set(self._ready)
            self._ready = deque(block for block in ordered if block in ready)
            thirds = (blocks for blocks in plan.blocks() if blocks[1][0].replicate == FIRST_BLOCKS)
            self._unsure = {block for block, _ in thirds}
        else:
            self._ready = deque(sorted(self._ready))  # the plan's rounds

    def take(self, fits: Callable[[int], bool] = lambda block: True) -> int | None:
        while self._ready and self._cannot_matter(self._ready[0]):
            self._waiting.pop(self._cell_of[self._ready.popleft()], None)
        if not self._ready:
            self._look()
        if self._ready and not fits(self._ready[0]):
            self.time_is_up()
        if not self._ready:
            return None
        block = self._ready.popleft()
        self._running.add(block)
        return block

    def done(self, block: int) -> None:
        self._running.discard(block)

    def is_over(self) -> bool:
        if not self._ready and not self._running:
            self._look()
        return not self._ready and not self._running

    def time_is_up(self) -> None:
        self._ready = deque(block for block in self._ready if block in self._owed)
        self._waiting.clear()

    def stop(self) -> None:
        self._ready.clear()
        self._waiting.clear()

    def _cannot_matter(self, block: int) -> bool:
        if block not in self._unsure:
            return False
        self._unsure.discard(block)
        standing = self._standings().get(self._cell_of[block])
        return standing is not None and not standing.is_open

    def _look(self) -> None:
        """Let go on whichever cells have all blocks of their look, and are open."""
        busy = {self._cell_of[block] for block in self._running}
        due = [cell_id for cell_id in self._waiting if cell_id not in busy]
        if not due:
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
            later = [stage for stage in self._stages if stage > reached]
            for _, cell_id in sorted(open_cells):
                if self._reached[cell_id] == reached:
                    self._go_to(cell_id, later[0])
            if self._ready:
                return

    def _go_to(self, cell_id: str, stage: int) -> None:
        self._reached[cell_id] = stage
        blocks = self._waiting[cell_id]
        while blocks and blocks[0][0] < stage:
            self._ready.append(blocks.popleft()[1])

    def _standings(self) -> Mapping[str, Standing]:
        for _ in range(TRIES - 1):
            try:
                return self._ask()
            except (AnalysisError, OSError):
                time.sleep(AGAIN_S)
        return self._ask()


def asking_of(
    session: Session, ask: Callable[[], Mapping[str, Standing]], slots: int = 1
) -> Asking:
    """`ask`: how the cells stand as recorded so far, where that decides."""
    plan, at_once = session.plan, slots if session.cell_by_cell else None
    if not plan.looks:
        return InOrder(plan, at_once)
    owed = session.job.blocks_owed if session.job else 0
    return UntilDecided(plan, session.begun, ask, owed, at_once)


class Pace:
    """About how long a block takes: as the last one of its cell did, or as the plan estimates."""

    def __init__(self, plan: Plan, *, gpu: bool) -> None:
        self._plan, self._gpu = plan, gpu
        self._blocks = dict(plan.blocks())
        self._trial_s: dict[str, float] = {}

    def expected_s(self, block: int) -> float:
        trials = self._blocks[block]
        trial_s = self._trial_s.get(trials[0].cell.cell_id)
        return trial_s * len(trials) if trial_s else self._plan.block_s(trials, gpu=self._gpu)

    def note(self, block: int, took_s: float) -> None:
        trials = self._blocks[block]
        self._trial_s[trials[0].cell.cell_id] = took_s / len(trials)
