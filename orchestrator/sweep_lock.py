"""One launch at a time for each plan and results location."""

import json
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from hashlib import blake2b
from pathlib import Path

from filelock import FileLock, Timeout

from cudnn_sweep.orchestrator.errors import SweepBusyError


@contextmanager
def sweep_lock(location: str, plan_hash: str) -> Iterator[None]:
    """Hold the plan; the kernel lets go of it when this process ends, however it ends.

    In a local results folder the lock lies there; for a URL it holds on this machine alone.
    Raises SweepBusyError, naming the holder.
    """
    folder = _folder(location)
    holder = folder / f".{plan_hash}.holder"
    lock = FileLock(folder / f".{plan_hash}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise SweepBusyError(f"this sweep is in progress: {_describe(holder)}") from None
    try:
        now = datetime.now().astimezone().isoformat(timespec="seconds")
        holder.write_text(
            json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": now})
        )
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _folder(location: str) -> Path:
    if "://" in location:
        name = blake2b(location.encode(), digest_size=8).hexdigest()
        folder = Path(tempfile.gettempdir(), f"cudnn-sweep-{os.getuid()}", "locks", name)
    else:
        folder = Path(location)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _describe(holder: Path) -> str:
    try:
        found = json.loads(holder.read_text())
        return f"process {found['pid']} on {found['host']}, since {found['since']}"
    except (OSError, ValueError, KeyError):
        return "by a launch that has just begun"
