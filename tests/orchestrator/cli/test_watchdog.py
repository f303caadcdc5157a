"""When a watchdog starts, with which code it ends, and how it passes signals on, of a worker that is made up."""

import math
import os
import signal
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.orchestrator.cli import watchdog
from cudnn_sweep.orchestrator.cli.watchdog import END_S, LOOK_S, _Watch, is_watched, say_code
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from tests.orchestrator.typed import invoke

launch: Any = import_module("cudnn_sweep.orchestrator.cli.launch")  # the package has its command
WORKER = 100


def exited(code: int) -> int:
    return code << 8


@pytest.mark.parametrize(
    ("reported", "signalled", "status", "code", "text"),
    [
        (b"\x03", None, exited(3), 3, ""),
        (b"\x00", signal.SIGTERM, exited(1), 0, ""),
        (b"", None, exited(0), 0, ""),
        (b"", None, exited(2), 2, ""),
        (b"", None, exited(1), ExitCode.UNFINISHED, "Ray on this machine ended, and so did this"),
        (b"", None, signal.SIGKILL, ExitCode.UNFINISHED, "this launch ended with code -9"),
        (b"", signal.SIGINT, exited(0), ExitCode.INTERRUPTED, "interrupted"),
        (b"", signal.SIGTERM, signal.SIGTERM, ExitCode.TERMINATED, "interrupted"),
        (b"", signal.SIGHUP, exited(1), ExitCode.TERMINATED, "interrupted"),
    ],
)
def test_the_exit_code_is_the_reported_one_or_says_what_ended_the_worker(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    reported: bytes,
    signalled: int | None,
    status: int,
    code: int,
    text: str,
) -> None:
    watch = _Watch(WORKER)
    looks = iter([(0, 0), (0, 0), (WORKER, status)])
    waits: list[int] = []

    def wait() -> None:
        waits.append(1)
        watch._signal = signalled

    monkeypatch.setattr(os, "waitpid", lambda pid, how: next(looks))
    monkeypatch.setattr(watch, "_wait", wait)
    said, say = os.pipe()
    os.write(say, reported)
    os.close(say)
    assert watch.code(said) == code
    os.close(said)
    assert len(waits) == 2
    printed = capfd.readouterr().err
    assert (text in printed) if text else not printed


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> "Signals":
    return Signals(monkeypatch)


class Signals:
    """A watch whose signals and clock are made up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.watch, self.now_s = _Watch(WORKER), 1000.0
        self.waited: list[float] = []
        self.killed: list[tuple[int, int]] = []
        self.looks = 0
        self._came: SimpleNamespace | None = None
        monkeypatch.setattr(watchdog, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(signal, "sigtimedwait", self._wait)
        monkeypatch.setattr(os, "kill", lambda pid, number: self.killed.append((pid, number)))
        monkeypatch.setattr(self.watch, "_look", self._look)

    def _wait(self, signals: object, timeout_s: float) -> SimpleNamespace | None:
        self.waited.append(timeout_s)
        return self._came

    def _look(self) -> None:
        self.looks += 1

    def comes(self, number: int | None, code: int = 0) -> None:
        """One wait, which ends with this signal; None: it ends by itself."""
        self._came = None if number is None else SimpleNamespace(si_signo=number, si_code=code)
        self.watch._wait()


def test_a_signal_of_a_process_is_passed_on_and_one_of_a_terminal_is_not(watch: Signals) -> None:
    watch.comes(signal.SIGTERM, 0)
    watch.comes(signal.SIGINT, 128)
    watch.comes(signal.SIGHUP, -1)
    assert watch.killed == [(WORKER, signal.SIGTERM), (WORKER, signal.SIGHUP)]
    assert watch.watch._signal == signal.SIGHUP
    assert watch.looks == 0


def test_a_child_that_ends_is_no_signal_to_pass_on(watch: Signals) -> None:
    watch.comes(signal.SIGCHLD, 1)
    assert (watch.killed, watch.looks, watch.watch._signal) == ([], 0, None)
    assert watch.watch._kill_at == math.inf


def test_processes_are_looked_at_now_and_then(watch: Signals) -> None:
    watch.comes(None)
    assert (watch.waited, watch.looks, watch.killed) == ([LOOK_S], 1, [])


def test_a_worker_that_does_not_end_after_a_signal_is_killed_once(watch: Signals) -> None:
    watch.comes(signal.SIGINT, 128)
    watch.now_s += 10.0
    watch.comes(signal.SIGINT, 128)  # a second one gives no more time
    watch.now_s += END_S - 12.0
    watch.comes(None)
    assert watch.waited[-1] == 2.0
    assert watch.killed == []
    watch.now_s += 2.0
    watch.comes(None)
    assert watch.waited[-1] == 0.0
    assert watch.killed == [(WORKER, signal.SIGKILL)]
    watch.now_s += 1.0
    watch.comes(None)
    assert watch.waited[-1] == LOOK_S
    assert len(watch.killed) == 1


def test_a_watched_worker_reports_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_watched()
    say_code(3)  # to nobody
    said, say = os.pipe()
    monkeypatch.setattr(watchdog, "_writer", say)
    assert is_watched()
    say_code(7)
    assert os.read(said, 2) == b"\x07"
    os.close(said)
    os.close(say)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "begins"), [([], ["watchdog", "launch"]), (["--dry-run"], ["launch"])]
)
def test_a_launch_begins_with_a_watchdog_unless_it_only_prints_its_plan(
    monkeypatch: pytest.MonkeyPatch, words: list[str], begins: list[str]
) -> None:
    began: list[str] = []
    monkeypatch.setattr(launch, "start_watchdog", lambda: began.append("watchdog"))
    destination = "cudnn_sweep.orchestrator.remote.destinations.launch"
    monkeypatch.setattr(destination, lambda *_: began.append("launch"))
    monkeypatch.setattr(launch.failing, "leave", lambda _: None)
    done = invoke(["launch", *words])
    assert done.exit_code == 0, done.output
    assert began == begins
