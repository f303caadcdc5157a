"""Files that a command writes where the user says."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cudnn_sweep.orchestrator.errors import OutputError


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """A block that writes `file`: where it cannot be written, the user's mistake and not ours."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {file}: {error.strerror}") from error
