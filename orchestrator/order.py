"""The order in which a plan's trials start: a block's, one after another, on the slot that began it."""

from collections import deque

from cudnn_sweep.orchestrator.plan import Plan, Trial


class BlockOrder:
    """Hands out trials. Whoever asks says when one has ended; a block never has two at once.

    A block's next trial is handed out as soon as the one before it has ended, so that the slot that
    has just become free takes it. Tune promises no order: the records say what really happened.
    """

    def __init__(self, plan: Plan, slots: int) -> None:
        self._waiting = deque(deque(trials) for _, trials in plan.blocks())
        self._slots = slots
        self._running: dict[int, deque[Trial]] = {}
        self._ready: deque[deque[Trial]] = deque()
        self._closed = False

    @property
    def finished(self) -> bool:
        """Whether no trial will be handed out any more."""
        more = any(self._running.values()) or self._ready
        return not more and (self._closed or not self._waiting)

    def next(self) -> Trial | None:
        """The trial to start now; None while every slot has one."""
        if len(self._running) >= self._slots:
            return None
        if self._ready:
            block = self._ready.popleft()
        elif self._waiting and not self._closed:
            block = self._waiting.popleft()
        else:
            return None
        trial = block.popleft()
        self._running[trial.position] = block
        return trial

    def ended(self, position: int) -> None:
        block = self._running.pop(position)
        if block:
            self._ready.append(block)

    def open_no_block(self) -> None:
        """Finish the blocks that were begun, and no more."""
        self._closed = True

    def stop(self) -> None:
        """Hand out nothing more."""
        self._closed = True
        self._ready.clear()
        self._running = {position: deque() for position in self._running}
