"""Texts that are dear to make, kept in the user's cache folder for the next report."""

import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile


def kept(name: str, version: str, make: Callable[[], str]) -> str:
    """Return the text in the file `name`, or what `make` returns if that file is of another version, damaged, or
    could be written by other users; keep what was made."""
    with suppress(OSError, ValueError, RuntimeError):
        return _read(_folder() / name, version)
    text = make()
    with suppress(OSError, RuntimeError):
        _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=_folder()) as file:
            file.write(f"{_digest(version, text)}\n{text}".encode())
            file.flush()
            os.replace(file.name, _folder() / name)  # closing then finds no file to remove
    return text


def _folder() -> Path:
    """Return the cache folder. Raises RuntimeError without a home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cudnn-sweep"


def _digest(version: str, text: str) -> str:
    return sha256(f"{version}\n{text}".encode()).hexdigest()


def _read(path: Path, version: str) -> str:
    """Return the text. Raises OSError or ValueError if it cannot be trusted."""
    # O_NONBLOCK: a pipe is read as empty
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        digest, text = file.read().decode().split("\n", 1)
    if status.st_uid != os.getuid() or status.st_mode & 0o022 or digest != _digest(version, text):
        raise ValueError(path)
    return text
