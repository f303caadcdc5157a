"""One measurement at a time on a device, whichever user measures and whatever TMPDIR says.

A name of Linux's abstract sockets is the lock. The whole machine sees it (a container with a network of
its own sees its own), the kernel gives it back when its process ends, and there is no file to tamper with.
"""

import errno
import pwd
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from cudnn_sweep.orchestrator.errors import OrchestratorError, SweepBusyError

PREFIX = "cudnn-sweep/measuring/"
WAITING = 1024  # how many may have asked who holds it
ASK_S = 1.0
PEER = struct.Struct("3i")  # pid, uid, gid: see SO_PEERCRED in unix(7)


@contextmanager
def device_lock(name: str) -> Iterator[None]:
    """Raises SweepBusyError, naming the device and the holder."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        try:
            lock.bind(_address(name))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise OrchestratorError(f"no lock for {name}: {error.strerror}") from error
            told = f"another sweep is measuring on {name}: {_holder(name)}"
            raise SweepBusyError(told) from None
        lock.listen(WAITING)
        yield


def _address(name: str) -> str:
    return f"\0{PREFIX}{name}"


def _holder(name: str) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(ASK_S)
        try:
            asking.connect(_address(name))
            peer = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
        except OSError:
            shown = f"`sudo ss -xap | grep {PREFIX}{name}` shows which, and it must end first"
            return f"a launch that has just begun, or a process that does not answer; {shown}"
    pid, uid, _ = PEER.unpack(peer)
    return f"process {pid} of {_user(uid)} on {socket.gethostname()}"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
