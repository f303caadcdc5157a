"""Devices to measure on alone: whoever works on one already is waited for, for a while."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from rich.console import Console

from cudnn_sweep.orchestrator.doctor.gpu_checks import others_on
from cudnn_sweep.orchestrator.errors import SweepBusyError
from cudnn_sweep.orchestrator.locks.sweep_lock import measuring_lock
from cudnn_sweep.orchestrator.showing.say import say

LOOK_S = 10.0  # between two looks


@contextmanager
def free_devices(uuids: Sequence[str], wait_s: float, console: Console) -> Iterator[None]:
    """Hold these GPUs, or the CPU where there is none.

    Raises SweepBusyError where another sweep still has one after `wait_s`. Processes that are no sweep's keep
    nobody from measuring after that: trials beside them are marked.
    """
    waiting = _Waiting(wait_s, console)
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(measuring_lock(list(uuids) or ["cpu"]))
                break
            except SweepBusyError as error:
                if not waiting.goes_on(str(error)):
                    raise
        while (busy := _busy(uuids) if wait_s else None) and waiting.goes_on(busy):
            pass
        yield


class _Waiting:
    def __init__(self, wait_s: float, console: Console) -> None:
        self._wait_s = wait_s
        self._ends = time.monotonic() + wait_s
        self._console = console
        self._told = ""

    def goes_on(self, reason: str) -> bool:
        """Says what is waited for, once, and waits for the next look; False where the time is up."""
        if time.monotonic() >= self._ends:
            return False
        if reason != self._told:
            say(self._console, f"Waiting, {self._wait_s / 60:g} minutes at most: {reason}")
            self._told = reason
        time.sleep(LOOK_S)
        return True


def _busy(uuids: Sequence[str]) -> str | None:
    for uuid in uuids:
        if others := others_on(uuid):
            return f"other processes work on {uuid}: {others}"
    return None
