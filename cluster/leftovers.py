"""Temporary folders, each locked by its process. A killed process leaves its folder unlocked."""

import fcntl
import glob
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

SUFFIX = ".held"  # distinguishes them from folders of earlier versions and other programs


@contextmanager
def held_folder(prefix: str, parent: Path) -> Iterator[Path]:
    """Yield a new folder, and remove it at the end. Raises OSError if no folder can be made."""
    folder, held = make_held(prefix, parent)
    try:
        yield folder
    finally:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        finally:  # a signal to the process and one to its group interrupt it twice
            shutil.rmtree(folder, ignore_errors=True)
            os.close(held)


def make_held(
    prefix: str, parent: Path, end: Callable[[Path], None] = lambda _: None
) -> tuple[Path, int]:
    """Remove the folders of killed processes. Return a new folder and a descriptor that locks it.

    Before a folder is removed, `end(folder)` ends the processes that still use it. Raises OSError.
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
        with suppress(BlockingIOError, FileNotFoundError):  # another process took it for a leftover
            return folder, _hold(folder)


def _hold(folder: Path) -> int:
    """Lock a folder; return its descriptor. Raises OSError if it is locked, gone or not ours."""
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
