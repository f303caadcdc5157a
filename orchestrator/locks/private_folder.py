"""Makes folders to which only the current user may write."""

import os
import stat
import tempfile
from pathlib import Path

from cudnn_sweep.orchestrator.errors import OrchestratorError

ADVICE = "remove it, or set TMPDIR to another folder"


def our_temporary_folder() -> Path:
    """Return this user's temporary folder, and make it if needed. Raises OrchestratorError."""
    return private_folder(temporary_path())


def temporary_path() -> Path:
    """Return the path of this user's temporary folder without checking its owner."""
    return Path(tempfile.gettempdir(), f"cudnn-sweep-{os.getuid()}")


def scratch_folder(name: str) -> Path:
    """Return the folder for a sweep's compute caches. Raises OrchestratorError."""
    return our_temporary_folder() / "scratch" / name


def private_folder(path: Path) -> Path:
    """Make the folder if it is missing. Raises OrchestratorError if other users may write to it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
        if fault := _fault(status):
            raise OrchestratorError(f"{path} {fault}: {ADVICE}")
        path.chmod(0o700)
    except OSError as error:
        raise OrchestratorError(f"{path} cannot be used: {error.strerror}: {ADVICE}") from error
    return path


def _fault(status: os.stat_result) -> str | None:
    if stat.S_ISLNK(status.st_mode):
        return "is a link"
    if status.st_uid != os.getuid():
        return f"belongs to another user ({status.st_uid})"
    return "can be written by other users" if status.st_mode & 0o022 else None
