"""A file that is written whole or not at all."""

import os
from pathlib import Path

from cudnn_sweep.orchestrator.errors import OutputError


def is_stream(path: Path) -> bool:
    """Whether it is a device or a pipe, such as /dev/stdout."""
    return path.exists() and not path.is_file() and not path.is_dir()


def write_whole(path: Path, text: str) -> None:
    """Write text; a reader finds all of it or the file as it was. Raises OutputError."""
    target = path.resolve()  # a link stays one
    beside = target.with_name(f".{target.name[:200]}.{os.getpid()}")
    try:
        if is_stream(path) or path.is_dir():
            path.write_text(text, encoding="utf-8")
            return
        try:
            beside.write_text(text, encoding="utf-8")
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error
