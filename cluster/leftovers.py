"""Temporary folders with locks. The folder of a killed process is unlocked and can be removed."""

import fcntl
import glob
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

SUFFIX = ".held"  # ending of the folders' names


@contextmanager
def held_folder(prefix: str, parent: Path) -> Iterator[Path]:
    """Yield a new folder, and remove it at the end. Raises OSError if no folder can be made."""
    folder, held = make_held(prefix, parent)
    try:
        yield folder
    finally:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        finally:  # two signals may interrupt it twice
            shutil.rmtree(folder, ignore_errors=True)
            os.close(held)


def make_held(
    prefix: str, parent: Path, end: Callable[[Path], None] = lambda _: None
) -> tuple[Path, int]:
    """Remove the folders of killed processes. Return a new folder and the descriptor of its lock.

    `end(folder)` is called before a folder is removed. Raises OSError.
    """
    for left in parent.glob(f"{glob.escape(prefix)}????????{SUFFIX}"):
        with suppress(OSError):
            held = _hold(left)
            try:
                end(left)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(held)
    while True:
        folder = Path(mkdtemp(prefix=prefix, suffix=SUFFIX, dir=parent))
        with suppress(BlockingIOError, FileNotFoundError):  # another process has removed it
            return folder, _hold(folder)


def _hold(folder: Path) -> int:
    """Lock a folder and return its descriptor. Raises OSError if it is locked or missing."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(held).st_uid != os.getuid():
            raise PermissionError(folder)
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder.stat()
    except OSError:
        os.close(held)
        raise
    return held
