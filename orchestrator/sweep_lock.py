"""One launch at a time for each plan and results location, and for each accelerator."""

import json
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from hashlib import blake2b
from pathlib import Path

from filelock import FileLock, Timeout

from cudnn_sweep.orchestrator.errors import OrchestratorError, SweepBusyError


@contextmanager
def sweep_lock(location: str, plan_hash: str) -> Iterator[None]:
    """Hold the plan: no two launches run it into the same results.

    In a local results folder the lock lies there; for a URL it holds on this machine alone.
    Raises SweepBusyError, naming the holder; OrchestratorError where no lock can be made.
    """
    with _held(_folder(location), plan_hash, "this sweep is in progress"):
        yield


@contextmanager
def night_lock(location: str, launch: str) -> Iterator[None]:
    """Hold the nights of one launch file. Raises SweepBusyError, naming the holder."""
    with _held(
        _folder(location), f"nightly-{launch}", "a night of this launch file is in progress"
    ):
        yield


@contextmanager
def measuring_lock(accelerators: list[str]) -> Iterator[None]:
    """Hold this machine's accelerators: two launches measuring on one would spoil each other.

    Raises SweepBusyError, naming the accelerator and the holder.
    """
    folder = our_temporary_folder() / "locks"
    with ExitStack() as stack:
        for name in sorted(accelerators):
            stack.enter_context(_held(folder, name, f"another sweep is measuring on {name}"))
        yield


def our_temporary_folder() -> Path:
    """This user's, on this machine."""
    return Path(tempfile.gettempdir(), f"cudnn-sweep-{os.getuid()}")


@contextmanager
def _held(folder: Path, name: str, otherwise: str) -> Iterator[None]:
    """The kernel lets go of the lock when this process ends, however it ends."""
    holder = folder / f".{name}.holder"
    lock = FileLock(folder / f".{name}.lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise SweepBusyError(f"{otherwise}: {_describe(holder)}") from None
    except OSError as error:
        reason = error.strerror or error
        raise OrchestratorError(f"no lock can be made in {folder}: {reason}") from error
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    try:
        with suppress(OSError):  # a full disk: then nobody is told who holds it
            holder.write_text(
                json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": now})
            )
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _folder(location: str) -> Path:
    if "://" not in location:
        return Path(location)
    name = blake2b(location.encode(), digest_size=8).hexdigest()
    return our_temporary_folder() / "locks" / name


def _describe(holder: Path) -> str:
    try:
        found = json.loads(holder.read_text())
        return f"process {found['pid']} on {found['host']}, since {found['since']}"
    except (OSError, ValueError, KeyError):
        return "by a launch that has just begun"
