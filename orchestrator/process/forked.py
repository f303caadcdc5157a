"""A forked process as its server sees it: its pipes, what it said, how long it may keep the baton."""

import math
import os
import signal
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from time import monotonic
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from cudnn_sweep.orchestrator.process.protocol import (
    PASSED,
    REPLY,
    SO_FAR,
    WHAT_WAS_SAID,
    Outcome,
    Reply,
    Request,
    Status,
)

EXIT_S = 30.0  # a process that has replied and does not end is killed after this
LAST_WORDS = 800  # characters of a dead process's output that go into its message
FOREIGN_BYTES = 80  # of what is no reply of ours

Heard = TypeVar("Heard")


class Forked:
    def __init__(self, request: Request, others: Iterable["Forked"], gap_s: float | None) -> None:
        """Fork it; it has the baton. `others`: those that live, whose pipes are none of its."""
        from cudnn_sweep.orchestrator.process.child import live

        self._request = request
        self._gap_s = gap_s
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed when the process has ended
        self._replies, reply_to = os.pipe()
        told, self._tell = os.pipe()
        self._said = b""
        self._started_at, self._born = datetime.now(UTC), monotonic()
        self._left_s = request.timeout_s
        self._deadline = self._born + request.timeout_s
        self._waited_s = 0.0
        self._passed_on_at: float | None = None
        self._replied_at: float | None = None
        self._is_silent = False
        self._timed_out = False
        self._foreign: bytes | None = None
        self.pid = os.fork()
        if self.pid == 0:
            for other in others:
                other._close()
            os.close(self._replies)
            os.close(self._tell)
            live(request, told, reply_to, self._log.fileno(), self._born)
        os.close(reply_to)
        os.close(told)
        # Its end is watched through a pidfd: a descendant may hold its side of the pipe open for ever.
        self._pidfd = os.pidfd_open(self.pid)

    @property
    def watched(self) -> set[int]:
        """What `select` is to look at."""
        return {self._pidfd} if self._is_silent else {self._pidfd, self._replies}

    @property
    def deadline(self) -> float:
        """When it is to be killed, by `monotonic`."""
        return self._deadline

    def tell(self, turn: bytes) -> None:
        """Pass it the baton, with a Turn."""
        now = monotonic()
        if self._passed_on_at is not None:
            self._waited_s += now - self._passed_on_at
            self._passed_on_at = None
            self._deadline = now + self._left_s
        try:
            os.write(self._tell, turn + b"\n")
        except BrokenPipeError:
            pass  # it has died, and its end says how

    def listen(self, ready: set[int]) -> bytes | None:
        """Read what it says; returns a Said where it passes the baton on."""
        if self._replies not in ready:
            return None
        data = os.read(self._replies, 2**16)
        self._said += data
        if not data or self._last_line():
            self._is_silent = True
            self._replied_at = monotonic()
            self._deadline = min(self._deadline, self._replied_at + EXIT_S)
            self._last_reply()
        return self._take_passed()

    def _take_passed(self) -> bytes | None:
        before, _, line = self._said.removesuffix(b"\n").rpartition(b"\n")
        if not (self._said.endswith(b"\n") and line.startswith(PASSED)):
            return None
        self._said = before + b"\n" if before else b""
        if self._understood(WHAT_WAS_SAID, line.removeprefix(PASSED)) is None:
            return None
        self._passed_on_at = monotonic()
        self._left_s = self._deadline - self._passed_on_at
        self._deadline = math.inf
        return line.removeprefix(PASSED)

    def has_ended(self, ready: set[int]) -> bool:
        """And nothing that it said is unread."""
        return self._pidfd in ready and self._replies not in ready

    def give_up(self) -> None:
        """Its time is over."""
        self._timed_out = not self._last_line()
        self._deadline = math.inf
        self.kill()

    def kill(self) -> None:
        signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def bury(self) -> Outcome:
        """What became of it, once it has ended or was killed."""
        exit_began = self._replied_at or monotonic()
        wait_status = os.waitpid(self.pid, 0)[1]
        now = monotonic()
        if self._passed_on_at is not None:
            self._waited_s += now - self._passed_on_at
        reply = self._last_reply()
        status, message = self._judge(reply, wait_status)
        if reply is None and (reply := self._reply_so_far()) and reply.measured:
            reply.measured.checks_error, status, message = message, "ok", None
        self._close()
        return Outcome(
            status=status,
            message=message,
            reply=reply,
            pid=self.pid,
            started_at=self._started_at,
            ended_at=datetime.now(UTC),
            process_s=now - self._born,
            waited_s=self._waited_s,
            exit_s=now - exit_began if reply else None,
            gap_s=self._gap_s,
        )

    def _close(self) -> None:
        for descriptor in (self._pidfd, self._replies, self._tell):
            os.close(descriptor)
        self._log.close()

    def _last_line(self) -> bytes | None:
        """The reply after which no other follows."""
        line = self._said.removesuffix(b"\n").rpartition(b"\n")[2]
        return (
            line if self._said.endswith(b"\n") and not line.startswith((SO_FAR, PASSED)) else None
        )

    def _last_reply(self) -> Reply | None:
        line = self._last_line()
        return self._understood(REPLY, line) if line else None

    def _reply_so_far(self) -> Reply | None:
        line, end, _ = self._said.partition(b"\n")
        return self._understood(REPLY, line.removeprefix(SO_FAR)) if end else None

    def _understood(self, kind: TypeAdapter[Heard], line: bytes) -> Heard | None:
        """None where the user's code wrote to our pipe too: nothing that follows is of use."""
        try:
            return kind.validate_json(line)
        except ValidationError:
            self._foreign = self._foreign or line
            self._deadline = monotonic()
            return None

    def _judge(self, reply: Reply | None, wait_status: int) -> tuple[Status, str | None]:
        if reply is not None:
            return reply.status, reply.message
        words = self._last_words()
        if self._foreign is not None:
            found = f"found {self._foreign[:FOREIGN_BYTES]!r}{words}"
            return "error", f"its code wrote to the pipe of this process's replies: {found}"
        if self._timed_out:
            return "timeout", f"no result after {self._request.timeout_s:g} s: ended{words}"
        if os.WIFSIGNALED(wait_status):
            number = os.WTERMSIG(wait_status)
            status: Status = "killed" if number == signal.SIGKILL else "crash"
            return status, _signal_name(number) + words
        code = os.WEXITSTATUS(wait_status)
        return "crash", f"ended without a result, exit code {code}{words}"

    def _last_words(self) -> str:
        log = self._log.fileno()
        size = os.fstat(log).st_size
        text = os.pread(log, LAST_WORDS, max(0, size - LAST_WORDS)).decode(errors="replace").strip()
        return f"; its last output: {text}" if text else ""


def _signal_name(number: int) -> str:
    """Python has names for the first and the last real-time signal alone."""
    known = {each.value: each.name for each in signal.Signals}
    return f"{known.get(number, f'signal {number}')} ({signal.strsignal(number)})"
