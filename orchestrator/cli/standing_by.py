"""The process that a shell waits for, beside the one that does the work: it lives whatever becomes of that.

Ray ends the process that joined it with exit code 1 where one of its own dies, and takes SIGTERM for itself
while it starts. Neither may be what a shell, a timer or Slurm is told.
"""

import os
import signal
import sys
from dataclasses import dataclass
from time import monotonic
from typing import Any

UNFINISHED, INTERRUPTED, TERMINATED = 1, 130, 143
FROM_RAY = 1  # what it ends a process with
END_S = 25.0  # to close after a signal; Slurm gives 30 s
WATCHED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD}
CODES: dict[int, int] = {
    signal.SIGINT: INTERRUPTED,
    signal.SIGTERM: TERMINATED,
    signal.SIGHUP: TERMINATED,
}
KEPT = "recorded trials are kept; launch again to resume"

_say: int | None = None  # where the working process says its exit code


def stand_by(lost: int) -> None:
    """Return in a new process that does the work; this one waits for it, and ends as it ends.

    `lost`: the exit code where it ends without a word of its own. Nothing is done inside another program,
    as a test.
    """
    from cudnn_sweep.orchestrator.process.linux import die_with_parent

    global _say
    if sys.stdout is not sys.__stdout__:
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    said, say = os.pipe()
    parent, worker = os.getpid(), os.fork()
    if worker == 0:
        die_with_parent()
        if os.getppid() != parent:
            os._exit(lost)
        os.close(said)
        _say = say
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
        _say_what_python_ends_with(lost)
        return
    os.close(say)
    os._exit(_Watch(worker=worker, said=said, lost=lost).code())


def is_watched() -> bool:
    """Whether this process does the work that another one waits for."""
    return _say is not None


def say_code(code: int) -> None:
    """Whoever waits knows by this that the exit code is ours, and not Ray's."""
    if _say is not None:
        os.write(_say, bytes([code]))


def _say_what_python_ends_with(lost: int) -> None:
    """A traceback ends Python with Ray's code."""
    usual = sys.excepthook

    def hook(*raised: Any) -> None:
        usual(*raised)
        say_code(lost)

    sys.excepthook = hook


@dataclass(kw_only=True)
class _Watch:
    worker: int
    said: int
    lost: int
    signal: int | None = None
    """The last one that came from outside."""
    ends: float | None = None
    """When a worker that got a signal is ended."""

    def code(self) -> int:
        while (status := self._ended()) is None:
            self._wait()
        if said := os.read(self.said, 1):
            return said[0]
        if self.signal is not None:
            return self._tell(f"interrupted; {KEPT}", CODES[self.signal])
        code = os.waitstatus_to_exitcode(status)
        if code >= 0 and code != FROM_RAY:
            return code
        how = (
            "Ray on this machine ended, and so did this launch"
            if code == FROM_RAY
            else f"ended, {code}"
        )
        return self._tell(f"{how}; {KEPT}", self.lost)

    def _ended(self) -> int | None:
        found, status = os.waitpid(self.worker, os.WNOHANG)
        return status if found else None

    def _wait(self) -> None:
        """For its end, or a signal that it is to hear of too."""
        left_s = 3600.0 if self.ends is None else max(0.0, self.ends - monotonic())
        came = signal.sigtimedwait(WATCHED, left_s)
        if came is None:
            if self.ends is not None:
                os.kill(self.worker, signal.SIGKILL)  # what it started ends by itself
                self.ends = None
        elif came.si_signo != signal.SIGCHLD:
            self.signal = came.si_signo
            self.ends = self.ends or monotonic() + END_S
            if came.si_code <= 0:  # from a process, and not to all from the terminal
                os.kill(self.worker, came.si_signo)

    def _tell(self, text: str, code: int) -> int:
        os.write(2, f"sweep: {text}\n".encode())
        return code
