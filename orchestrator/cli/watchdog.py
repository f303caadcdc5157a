"""Runs a command in a worker, keeps its exit code if Ray ends it, and kills hung processes."""

import math
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

from cudnn_sweep.orchestrator.cli import early
from cudnn_sweep.orchestrator.exit_codes import ExitCode

FROM_RAY = 1  # exit code of a process that Ray ended
END_S = 25.0  # time for the worker to exit after a signal (Slurm allows 30 s)
WATCHED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD}
CODES = early.CODES | {signal.SIGHUP: ExitCode.TERMINATED}
KEPT = "recorded trials are kept; launch again to resume"
NO_ANSWER_S = 60.0  # by then a network disk is often available again
LOOK_S = 10.0  # time between checks, which each take milliseconds
NAMES = {  # keys are parts of command lines
    "ray::Recorder": "the recorder",
    "ray::ResourceTrainable": "a slot",
    "raylet/raylet": "Ray's raylet",
    "gcs_server": "Ray's GCS",
    "cudnn_sweep.orchestrator.process.server": "a trial or its fork server",
}
WAYS = {"T": "stopped by a signal", "D": "stuck in the kernel"}
PROC = Path("/proc")

_writer: int | None = None  # pipe to which the worker writes its exit code


def start_watchdog() -> None:
    """Fork a worker that the parent watches, and return in it. Do nothing if stdout is replaced."""
    from cudnn_sweep.orchestrator.process.linux import die_with_parent

    global _writer
    if sys.stdout is not sys.__stdout__:
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    reader, writer = os.pipe()
    parent, worker = os.getpid(), os.fork()
    if worker == 0:
        die_with_parent()
        if os.getppid() != parent:
            os._exit(ExitCode.UNFINISHED)
        os.close(reader)
        _writer = writer
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
        return
    os.close(writer)
    os._exit(_Watch(worker).code(reader))


def is_watched() -> bool:
    return _writer is not None


def say_code(code: int) -> None:
    if _writer is not None:
        os.write(_writer, bytes([code]))


class StuckBelow:
    """Finds processes that hang, among `root` and its descendants."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._since: dict[tuple[str, ...], float] = {}

    def look(self) -> dict[int, str]:
        """Return, by process id, how a thread has been stuck for at least NO_ANSWER_S seconds."""
        now, before, self._since = monotonic(), self._since, {}
        found = {}
        for pid in _below(self._root):
            for mark in _standing_still(pid):
                self._since[mark] = before.get(mark, now)
                if now - self._since[mark] >= NO_ANSWER_S:
                    found[pid] = WAYS[mark[0]]
        return found


def name_of(pid: int) -> str:
    command = _read(f"{pid}/cmdline").replace("\0", " ")
    known = [name for part, name in NAMES.items() if part in command]
    return f"{(known or [command[:40]])[0]} (process {pid} on {os.uname().nodename})"


def _below(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in filter(str.isdecimal, os.listdir(PROC)):
        if words := _read(f"{name}/stat").rpartition(")")[2].split():
            children.setdefault(int(words[1]), []).append(int(name))
    found = [root]
    for pid in found:
        found += children.get(pid, ())
    return found


def _standing_still(pid: int) -> Iterator[tuple[str, ...]]:
    """Yield a key for each stopped or stuck thread. The key changes when the thread runs."""
    with suppress(OSError):
        for thread in os.listdir(PROC / f"{pid}/task"):
            lines = _read(f"{pid}/task/{thread}/status").splitlines()
            fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            state = fields.get("State", "")[:1]
            if state in WAYS:
                yield state, thread, *(fields[name] for name in fields if "ctxt_switches" in name)


def _read(file: str) -> str:
    try:
        return (PROC / file).read_text(errors="replace")
    except OSError:  # the process has ended
        return ""


class _Watch:
    def __init__(self, worker: int) -> None:
        self._worker = worker
        self._below = StuckBelow(worker)
        self._killed: set[int] = set()
        self._signal: int | None = None
        self._kill_at = math.inf  # time by `monotonic`, set after a signal

    def code(self, reader: int) -> int:
        """Wait for the worker and return the exit code. `reader` is a pipe from the worker."""
        while not (ended := os.waitpid(self._worker, os.WNOHANG))[0]:
            self._wait()
        if own := os.read(reader, 1):
            return own[0]
        if self._signal is not None:
            _print(f"interrupted; {KEPT}")
            return CODES[signal.Signals(self._signal)]
        code = os.waitstatus_to_exitcode(ended[1])
        if code >= 0 and code != FROM_RAY:
            return code
        by_ray = "Ray on this machine ended, and so did this launch"
        _print(f"{by_ray if code == FROM_RAY else f'this launch ended with code {code}'}; {KEPT}")
        return ExitCode.UNFINISHED

    def _wait(self) -> None:
        """Wait for a signal and forward it to the worker. After LOOK_S, look for hung processes."""
        came = signal.sigtimedwait(WATCHED, max(0.0, min(LOOK_S, self._kill_at - monotonic())))
        if came is None:
            if monotonic() >= self._kill_at:
                os.kill(self._worker, signal.SIGKILL)  # its child processes end by themselves
                self._kill_at = math.inf
            self._look()
        elif came.si_signo != signal.SIGCHLD:
            self._signal = came.si_signo
            self._kill_at = min(self._kill_at, monotonic() + END_S)
            if came.si_code <= 0:  # a terminal also sends the signal to the worker
                os.kill(self._worker, came.si_signo)

    def _look(self) -> None:
        """Kill hung processes. If one survives, kill the worker. If the worker survives, exit."""
        for pid, way in self._below.look().items():
            name = name_of(pid)
            if pid not in self._killed:
                _print(f"killed {name}, which was {way} for {NO_ANSWER_S:g} s")
            else:
                _print(f"{name} cannot be killed: it is {way}. The launch ends; {KEPT}")
                if pid == self._worker:
                    os._exit(ExitCode.UNFINISHED)
                pid = self._worker
            self._killed.add(pid)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _print(text: str) -> None:
    os.write(2, f"sweep: {text}\n".encode())
