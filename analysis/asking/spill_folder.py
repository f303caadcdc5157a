"""Where a question goes on that lacks memory: a folder of this user alone that is gone afterwards."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "sweep-query-"
ABANDONED_S = 60.0  # by then whoever made a folder has locked it


@contextmanager
def spill_folder() -> Iterator[str]:
    """Empty, so that nothing spills, where no folder can be made.

    DuckDB may always write there, whatever else is locked, and so may a user's SQL: nothing else lies there.
    """
    _remove_abandoned(Path(tempfile.gettempdir()))
    try:
        folder = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
    except OSError:
        yield ""
        return
    with folder as name, _locked(Path(name)):
        yield name


def _remove_abandoned(parent: Path) -> None:
    """What a question left that was killed."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # somebody's, or removed meanwhile
            found = folder.lstat()
            if found.st_uid == os.getuid() and time.time() - found.st_mtime > ABANDONED_S:
                with _locked(folder):
                    shutil.rmtree(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Until the end of the block or of this process. Raises OSError where another holds it."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(opened)
