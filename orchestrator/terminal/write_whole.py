"""Writes files that the user named. Failures raise OutputError."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EEXIST
from pathlib import Path

from cudnn_sweep.analysis.errors import StoreError
from cudnn_sweep.cluster.leftovers import held_folder
from cudnn_sweep.orchestrator.errors import OutputError


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Convert an OSError in the `with` block to an OutputError that names `file`."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {file}: {error.strerror}") from error


@contextmanager
def written_anew(file: Path) -> Iterator[Path]:
    """Yield a temporary path, and rename it to `file`. Raises OutputError if `file` exists."""
    with writing(file), held_folder(f".{file.name}.", file.parent) as folder:
        made = folder / file.name
        yield made
        try:
            os.link(made, file)
        except FileExistsError:
            raise
        except OSError as error:  # the file system has no hard links
            if file.exists():
                raise FileExistsError(EEXIST, os.strerror(EEXIST)) from error
            made.rename(file)


def is_stream(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


def write_whole(path: Path, text: str) -> None:
    """Write `text` to a file, device or pipe. A file is replaced atomically. Raises OutputError."""
    import pyarrow as pa

    from cudnn_sweep.analysis.store.folder import LocalFolder

    target = path.resolve()  # a symbolic link is kept
    with writing(path):
        if is_stream(path) or path.is_dir() or not target.parent.is_dir():
            path.write_text(text, encoding="utf-8")
            return
        try:
            LocalFolder(str(target.parent)).write(target.name, pa.py_buffer(text.encode()))
        except StoreError as error:
            raise error.__cause__ or error from None
