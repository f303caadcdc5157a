"""How long a launch waits for other work, and what it prints meanwhile."""

import io
import math
from collections.abc import Callable

import pytest
from rich.console import Console

from cudnn_sweep.orchestrator.running import this_machine
from cudnn_sweep.orchestrator.running.this_machine import _waited


class Clock:
    """A clock that a sleep moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(this_machine, "time", clock)
    return clock


def waited(clock: Clock, busy: Callable[[], str | None], wait_s: float) -> tuple[str | None, str]:
    shown = io.StringIO()
    reason = _waited(busy, 100.0, wait_s, Console(file=shown, width=200))
    return reason, shown.getvalue()


def test_each_reason_is_printed_once_until_the_device_is_free(clock: Clock) -> None:
    reasons = iter(["one", "one", "two", None])
    found, shown = waited(clock, lambda: next(reasons), 120.0)
    assert found is None and clock.now == 100 + 3 * this_machine.LOOK_S
    lines = shown.splitlines()
    assert lines == ["Waiting, 2 minutes at most: one", "Waiting, 2 minutes at most: two"]


def test_the_last_reason_is_returned_once_the_time_is_up(clock: Clock) -> None:
    found, _ = waited(clock, lambda: "held", 2 * this_machine.LOOK_S)
    assert found == "held" and clock.now == 100 + 2 * this_machine.LOOK_S
    found, shown = waited(clock, lambda: "held", 0.0)
    assert (found, shown) == ("held", "")


def test_a_wait_without_limit_ends_with_ctrl_c(clock: Clock) -> None:
    reasons = iter(["one", None])
    assert waited(clock, lambda: next(reasons), math.inf) == (
        None,
        "Waiting, Ctrl-C ends it: one\n",
    )
