"""The server's view of the processes that run a trial's ranks above 0."""

import os
import select
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from pydantic import ValidationError

from cudnn_sweep.orchestrator.process.protocol import REPLY, Reply


@dataclass(kw_only=True, slots=True)
class Follower:
    """Process of a rank above 0. It writes a Reply to the pipe `replies` if its job fails."""

    rank: int
    pid: int
    pidfd: int
    replies: int
    unread: bytes = b""
    wait_status: int | None = None  # None while the process runs

    def listen(self) -> None:
        if select.select([self.replies], (), (), 0)[0]:
            self.unread += os.read(self.replies, 2**16)
        if self.wait_status is None and select.select([self.pidfd], (), (), 0)[0]:
            self.wait_status = os.waitpid(self.pid, 0)[1]

    def fault(self) -> Reply | int | None:
        """Return the reply or the wait status of a process that failed, or None."""
        if self.wait_status:
            return self.wait_status
        line, end, _ = self.unread.partition(b"\n")
        if not end:
            return None
        try:
            return REPLY.validate_json(line)
        except ValidationError:
            return Reply(status="error", message="the user's code wrote to the pipe for replies")

    def end(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        if self.wait_status is None:
            os.waitpid(self.pid, 0)
        os.close(self.pidfd)
        os.close(self.replies)


def first_fault(followers: Iterable[Follower]) -> tuple[int, Reply | int] | None:
    """Return a rank that failed and its fault, if any. Prefer a rank whose process died."""
    faults = [
        (follower.rank, fault) for follower in followers if (fault := follower.fault()) is not None
    ]
    return min(faults, key=lambda found: isinstance(found[1], Reply), default=None)
