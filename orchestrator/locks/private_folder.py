"""Folders of this user alone, in places that every user of the machine writes to."""

import os
import stat
import tempfile
from pathlib import Path

from cudnn_sweep.orchestrator.errors import OrchestratorError

WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
ADVICE = "remove it, or name another folder for temporary files by TMPDIR"


def our_temporary_folder() -> Path:
    """This user's, on this machine. Raises OrchestratorError where it is not, or cannot be made."""
    return private_folder(temporary_path())


def temporary_path() -> Path:
    """Everybody knows this name: nothing may be taken from there that was not looked at."""
    return Path(tempfile.gettempdir(), f"cudnn-sweep-{os.getuid()}")


def scratch_folder(sweep_id: str) -> Path:
    """For a sweep's compute caches. Raises as `our_temporary_folder` does."""
    return our_temporary_folder() / "scratch" / sweep_id


def private_folder(path: Path) -> Path:
    """Make it, or see that it is a folder of ours that nobody else writes to. Raises OrchestratorError."""
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
    return "can be written by other users" if status.st_mode & WRITABLE_BY_OTHERS else None
