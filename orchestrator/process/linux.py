"""Linux calls that control a process tree; see prctl(2) and proc(5)."""

import ctypes
import os
import signal
import socket
import struct
from collections.abc import Collection
from pathlib import Path

PEER = struct.Struct("3i")  # process id, user id and group id of a socket's peer; see unix(7)
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent dies."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end_children(but: Collection[int] = ()) -> None:
    """Kill all child processes except `but`. Repeat this for the orphans that they leave."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    while children := set(map(int, listed.read_text().split())).difference(but):
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        for pid in children:
            os.waitpid(pid, 0)


def is_of_this_user(connection: socket.socket) -> bool:
    """Return whether the process at the other end of the socket belongs to this user."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
    return bool(PEER.unpack(peer)[1] == os.getuid())


def give_back_memory() -> None:
    trim = getattr(_libc, "malloc_trim", None)  # only glibc has it
    if trim is not None:
        trim(0)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value})")
