"""Waiting for devices that others work on, by a clock of its own."""

import io
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from rich.console import Console

from cudnn_sweep.orchestrator.errors import SweepBusyError
from cudnn_sweep.orchestrator.locks import sweep_lock as locks
from cudnn_sweep.orchestrator.locks.sweep_lock import measuring_lock
from cudnn_sweep.orchestrator.running import this_machine as waiting
from cudnn_sweep.orchestrator.running.this_machine import LOOK_S, free_devices

GPU = ["GPU-1"]


class Clock:
    """Each pause ends at once, and is followed by what happens then."""

    def __init__(self, then: Callable[[int], None]) -> None:
        self.pauses = 0
        self._then = then

    def monotonic(self) -> float:
        return self.pauses * LOOK_S

    def sleep(self, seconds: float) -> None:
        assert seconds == LOOK_S
        self.pauses += 1
        self._then(self.pauses)


MakeClock = Callable[..., Clock]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MakeClock:
    def make(then: Callable[[int], None] = lambda _: None) -> Clock:
        made = Clock(then)
        monkeypatch.setattr(waiting, "time", made)
        return made

    monkeypatch.setattr(locks, "PREFIX", f"test/{tmp_path}/")
    return make


def test_another_sweep_is_waited_for_and_named_once(clock: MakeClock) -> None:
    said = io.StringIO()
    with ExitStack() as other:
        other.enter_context(measuring_lock(GPU))
        ticks = clock(lambda pauses: other.close() if pauses == 3 else None)
        with free_devices(GPU, 60.0, Console(file=said, width=200)):
            assert ticks.pauses == 3
            with pytest.raises(SweepBusyError), measuring_lock(GPU):
                pass
    assert said.getvalue().count("Waiting, 1 minutes at most: another sweep is measuring") == 1


@pytest.mark.parametrize(("wait_s", "pauses"), [(0.0, 0), (30.0, 3)])
def test_a_sweep_that_stays_is_refused_when_the_time_is_up(
    clock: MakeClock, wait_s: float, pauses: int
) -> None:
    ticks = clock()
    refused = pytest.raises(SweepBusyError, match="another sweep is measuring on GPU-1")
    with measuring_lock(GPU), refused, free_devices(GPU, wait_s, Console(quiet=True)):
        pass
    assert ticks.pauses == pauses


@pytest.mark.parametrize(("busy_for", "wait_s", "pauses"), [(2, 60, 2), (99, 30, 3), (99, 0, 0)])
def test_other_processes_are_waited_for_and_keep_nobody_from_measuring(
    clock: MakeClock, monkeypatch: pytest.MonkeyPatch, busy_for: int, wait_s: float, pauses: int
) -> None:
    ticks = clock()
    monkeypatch.setattr(waiting, "others_on", lambda _: 2 if ticks.pauses < busy_for else 0)
    said = io.StringIO()
    with free_devices(GPU, wait_s, Console(file=said, width=200)):
        assert ticks.pauses == pauses
    assert ("other processes work on GPU-1: 2" in said.getvalue()) == bool(pauses)
