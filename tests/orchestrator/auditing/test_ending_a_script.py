"""How an audit ends a script: at its limit of time, by a signal, and with which exit code."""

import math
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.orchestrator.auditing import audit
from cudnn_sweep.orchestrator.auditing.audit import GRACE_S, LOOK_S, REPEAT_S, _ended, _wait
from cudnn_sweep.workloads.auditing.begin import END

STARTED: Any = SimpleNamespace(look=lambda _: None)


class Script:
    """A script that ends at a time, or once it got a signal that it heeds, on a clock of its own."""

    pid = 7

    def __init__(self, *, ends_at: float = math.inf, heeds: tuple[int, ...] = ()) -> None:
        self.now, self.ends_at, self.heeds = 0.0, ends_at, heeds
        self.got: list[tuple[float, int]] = []
        self.waits: list[float] = []
        self.coming: list[tuple[int, int]] = []

    def monotonic(self) -> float:
        return self.now

    def poll(self) -> int | None:
        return 0 if self.now >= self.ends_at else None

    def send_signal(self, number: int) -> None:
        self.got.append((self.now, number))
        if number in (*self.heeds, signal.SIGKILL):
            self.ends_at = self.now

    def sigtimedwait(self, _: object, seconds: float) -> Any:
        self.waits.append(seconds)
        if self.coming:
            number, code = self.coming.pop(0)
            return SimpleNamespace(si_signo=number, si_code=code)
        self.now += max(seconds, 0.01)
        return None


def wait(script: Script, seconds: float | None, monkeypatch: pytest.MonkeyPatch) -> int | None:
    monkeypatch.setattr(audit, "monotonic", script.monotonic)
    monkeypatch.setattr(signal, "sigtimedwait", script.sigtimedwait)
    process: Any = script
    return _wait(process, seconds, STARTED)


def test_a_script_within_its_time_gets_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(ends_at=3 * LOOK_S)
    assert wait(script, None, monkeypatch) is None
    assert script.got == [] and set(script.waits) == {LOOK_S}


def test_a_script_over_its_time_is_asked_again_and_then_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(heeds=(END,))
    assert wait(script, 10.0, monkeypatch) is None
    ((at, number),) = script.got
    assert at == pytest.approx(10.0) and number == END
    deaf = Script()
    wait(deaf, 10.0, monkeypatch)
    times, numbers = zip(*deaf.got, strict=True)
    assert numbers == (END,) * (len(numbers) - 1) + (signal.SIGKILL,)
    assert times[0] == pytest.approx(10.0) and times[-1] == pytest.approx(10 + GRACE_S, abs=0.1)
    assert times[1] - times[0] == pytest.approx(min(REPEAT_S, GRACE_S), abs=0.1)


def test_a_signal_of_a_process_reaches_the_script_and_one_of_a_terminal_is_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(ends_at=5.0)
    script.coming = [(signal.SIGCHLD, 0), (signal.SIGINT, 128)]
    assert wait(script, None, monkeypatch) == signal.SIGINT and script.got == []
    script = Script(heeds=(signal.SIGINT,))
    script.coming = [(signal.SIGINT, 0)]
    assert wait(script, None, monkeypatch) == signal.SIGINT
    assert script.got == [(0.0, signal.SIGINT)]


def test_sigterm_ends_the_script_as_its_limit_does(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(heeds=(END,))
    script.coming = [(signal.SIGTERM, 0)]
    assert wait(script, 1000.0, monkeypatch) == signal.SIGTERM
    assert script.got == [(0.0, END)]


def test_an_end_has_the_exit_code_that_a_shell_gives_it() -> None:
    reached: Any = SimpleNamespace(limit_reached=True)
    not_reached: Any = SimpleNamespace(limit_reached=False)
    assert _ended(0, not_reached, None) == ("itself", 0)
    assert _ended(3, None, None) == ("itself", 3)
    assert _ended(-11, not_reached, None) == ("signal", 139)
    assert _ended(-9, reached, None) == ("limit", 0)
    assert _ended(1, reached, signal.SIGINT) == ("interrupt", 1)
    assert _ended(0, reached, signal.SIGTERM) == ("interrupt", 143)
