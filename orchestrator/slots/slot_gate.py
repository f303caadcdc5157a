"""Has every slot of a launch wait until all are up; Tune's host runs it as a Ray actor."""

from threading import Event, Lock

SLOTS_UP_S = 180.0  # a slot that does not come up must not hold the others for ever


class SlotGate:
    """Lets the first blocks begin once every slot is up: none is to be timed while others beside it
    import torch.
    """

    def __init__(self, slots: int) -> None:
        self._missing = slots
        self._lock = Lock()
        self._open = Event()

    def enter(self) -> None:
        with self._lock:
            self._missing -= 1
            if self._missing <= 0:
                self._open.set()
        self._open.wait(SLOTS_UP_S)
        self._open.set()

    def is_there(self) -> None:
        """Whoever waits for it in vain is told by this."""
