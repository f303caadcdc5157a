"""Locks that keep two launches from using the same accelerator or measuring the same plan.

The lock of an accelerator is an abstract Linux socket, which all users of a machine share. A
container with its own network has separate locks.
"""

import errno
import json
import os
import pwd
import socket
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import datetime
from hashlib import blake2b
from pathlib import Path

from filelock import FileLock, Timeout

from cudnn_sweep.analysis.store.location import Location
from cudnn_sweep.orchestrator.errors import OrchestratorError, SweepBusyError
from cudnn_sweep.orchestrator.locks.private_folder import our_temporary_folder

PREFIX = "cudnn-sweep/measuring/"
WAITING = 1024  # processes that may query the holder at the same time
PEER = struct.Struct("3i")  # pid, uid, gid: see SO_PEERCRED in unix(7)


def sweep_lock(location: str, plan_hash: str) -> AbstractContextManager[None]:
    """Lock a plan. Other machines do not see the lock if `location` is a URL.
    Raises SweepBusyError if the plan is locked, and OrchestratorError for other failures.
    """
    busy = "this sweep is in progress; launch again when it has ended"
    return _held(_folder(location), plan_hash, busy)


def night_lock(location: str, launch: str) -> AbstractContextManager[None]:
    """Lock the nights of a launch file. Raises the same errors as `sweep_lock`."""
    busy = "a night of this launch file is in progress"
    return _held(_folder(location), f"nightly-{launch}", busy)


@contextmanager
def measuring_lock(accelerators: list[str]) -> Iterator[None]:
    """Lock accelerators of this machine. Raises the same errors as `sweep_lock`."""
    with ExitStack() as held:
        for name in sorted(accelerators):
            lock = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            try:
                lock.bind(f"\0{PREFIX}{name}")
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise OrchestratorError(f"cannot lock {name}: {error.strerror}") from error
                raise SweepBusyError(_busy(name, _holder(name) or _unknown(name))) from None
            lock.listen(WAITING)
        yield


def holder_of(location: str) -> str | None:
    """Describe a process that is running a sweep into `location`. Return None if there is none."""
    for holder in _folder(location).glob(".*.holder"):
        note = _describe(holder)
        if Path("/proc", note.split()[1]).exists() or socket.gethostname() not in note:
            return note
    return None


@contextmanager
def _held(folder: Path, name: str, otherwise: str) -> Iterator[None]:
    """Lock `name` in `folder`. Linux removes the lock if this process is killed."""
    holder = folder / f".{name}.holder"
    lock = FileLock(folder / f".{name}.lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        if not Path(lock.lock_file).exists():  # no process holds the lock
            raise OrchestratorError(f"no lock can be made in {folder}: not writable") from None
        raise SweepBusyError(f"{otherwise}: {_describe(holder)}") from None
    except OSError as error:
        reason = error.strerror or error
        raise OrchestratorError(f"no lock can be made in {folder}: {reason}") from error
    try:
        with suppress(OSError):  # on a full disk, messages cannot name the holder
            now = datetime.now().astimezone().isoformat(timespec="seconds")
            holder.unlink(missing_ok=True)  # never write to an existing link
            with holder.open("x") as file:
                json.dump({"pid": os.getpid(), "host": socket.gethostname(), "since": now}, file)
        yield
    finally:
        with suppress(OSError):  # the lock is released even if this fails
            holder.unlink(missing_ok=True)
        lock.release()


def _folder(location: str) -> Path:
    where = Location(location)
    if where.is_local:
        return where.folder
    name = blake2b(location.encode(), digest_size=8).hexdigest()
    return our_temporary_folder() / "locks" / name


def _describe(holder: Path) -> str:
    try:
        note = json.loads(holder.read_text())
        return f"process {note['pid']} on {note['host']}, since {note['since']}"
    except (OSError, ValueError, KeyError):
        return "a launch that has just begun"


def held_by(name: str) -> str | None:
    """Describe the sweep that is measuring on device `name`. Return None if there is none."""
    holder = _holder(name)
    return holder and _busy(name, holder)


def _busy(name: str, holder: str) -> str:
    return f"another sweep is measuring on {name}: {holder}"


def _holder(name: str) -> str | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(1.0)
        try:
            asking.connect(f"\0{PREFIX}{name}")
            peer = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
        except ConnectionRefusedError:
            return None
        except OSError:
            return _unknown(name)
    pid, uid, _ = PEER.unpack(peer)
    user = f"user {uid}"
    with suppress(KeyError):  # a container's user may have no name
        user = pwd.getpwuid(uid).pw_name
    return f"process {pid} of {user} on {socket.gethostname()}"


def _unknown(name: str) -> str:
    shown = f"`sudo ss -xap | grep {PREFIX}{name}` shows the process, which must end first"
    return f"a launch that has just begun, or a process that does not answer; {shown}"
