"""Reads and writes a store's files, each completely or not at all. Paths are relative to it."""

import glob
import os
import stat
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from cudnn_sweep.analysis.errors import StoreError, TornFileError
from cudnn_sweep.analysis.store.location import Location

TEMPORARY_SUFFIX = ".tmp"
DELAYED_OPEN = "allow_delayed_open"  # pyarrow's option to send a small object in one request
STALE_TEMPORARY_S = 600  # older temporary files were left by a killed writer


class Folder:
    """Files below one folder of a pyarrow file system."""

    is_local = False

    def __init__(self, location: str, filesystem: fs.FileSystem, root: str) -> None:
        self.location = location
        self.filesystem = filesystem
        self.root = root.rstrip("/")
        self._scheme = "" if self.is_local else location.partition("://")[0] + "://"

    def full(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def write(self, path: str, content: pa.Buffer) -> None:
        action = f"write {self.shown(path)}"
        with naming(action), self.filesystem.open_output_stream(self.full(path)) as stream:
            stream.write(content)

    def read(self, path: str) -> pa.Buffer:
        """Return the bytes of a file. Raise FileNotFoundError if it does not exist."""
        with (
            naming(f"read {self.shown(path)}", may_be_gone=True),
            self.filesystem.open_input_file(self.full(path)) as stream,
        ):
            return stream.read_buffer()

    def require_file(self, path: str) -> None:
        """Do nothing, because an object store has only regular files."""

    def is_folder(self, path: str) -> bool:
        return True  # an object store has no folders, only prefixes

    def names(self, path: str, suffix: str = "") -> list[str]:
        """Return the sorted names in a folder that end with `suffix`. A missing folder has none."""
        selector = fs.FileSelector(self.full(path), allow_not_found=True)
        with naming(f"list {self.shown(path)}"):
            listed: list[str] = [info.base_name for info in self.filesystem.get_file_info(selector)]
        return sorted(name for name in listed if name.endswith(suffix))

    def files_below(self, prefix: str) -> list[str]:
        """Return all Parquet files whose paths begin with `prefix`."""
        selector = fs.FileSelector(self.full(""), allow_not_found=True, recursive=True)
        with naming(f"list {self.shown()}"):
            files = [info.path for info in self.filesystem.get_file_info(selector)]
        below = [path.removeprefix(self.full("")).lstrip("/") for path in files]
        return [path for path in below if path.startswith(prefix) and path.endswith(".parquet")]

    def rename(self, path: str, new_path: str) -> None:
        with naming(f"rename {self.shown(path)}", may_be_gone=True):
            self.filesystem.move(self.full(path), self.full(new_path))

    def remove(self, path: str) -> None:
        action = f"remove {self.shown(path)}"
        with suppress(FileNotFoundError), naming(action, may_be_gone=True):
            self.filesystem.delete_file(self.full(path))

    def remove_stale_temporaries(self, path: str) -> None:
        """Do nothing, because an object store has no incomplete objects."""

    def shown(self, path: str = "") -> str:
        """Return the full path or URL without options, for messages."""
        return f"{self._scheme}{self.full(path)}".encode(errors="backslashreplace").decode()

    def url(self, path: str) -> str:
        """Return a pattern for DuckDB. `path` may contain wildcards."""
        return f"{self._scheme}{glob.escape(self.root)}/{path}"


class LocalFolder(Folder):
    """A folder of this machine. A file is on disk when `write` returns."""

    is_local = True

    def __init__(self, location: str) -> None:
        root = str(Location(location).folder.absolute())
        super().__init__(root, fs.LocalFileSystem(), root)

    def write(self, path: str, content: pa.Buffer) -> None:
        target = Path(self.full(path))
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}{TEMPORARY_SUFFIX}")
        with naming(f"write {target}"):
            _make_folder(target.parent)
            try:
                with temporary.open("xb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                    temporary.replace(target)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            _sync_folder(target.parent)

    def require_file(self, path: str) -> None:
        """Raise TornFileError if the path is not a regular file or its name is not UTF-8."""
        try:
            kind = os.stat(self.full(path)).st_mode
        except OSError as error:
            if os.path.islink(self.full(path)):
                raise TornFileError(f"{self.shown(path)} is a broken link") from None
            if isinstance(error, FileNotFoundError):
                raise
            raise StoreError(f"cannot read {self.shown(path)}: {error.strerror}") from error
        if not stat.S_ISREG(kind):
            raise TornFileError(f"{self.shown(path)} is not a regular file")
        if path.encode(errors="replace").decode() != path:  # the name has bytes that are not UTF-8
            raise TornFileError(f"{self.shown(path)} has a name that is not UTF-8")

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(self.full(path))

    def rename(self, path: str, new_path: str) -> None:
        with naming(f"rename {self.shown(path)}", may_be_gone=True):
            os.rename(self.full(path), self.full(new_path))

    def names(self, path: str, suffix: str = "") -> list[str]:
        # pyarrow would read the status of each file, which fails if a file is removed meanwhile
        full = self.full(path)
        # below the root, a file or a broken link in the place of a folder has no names
        if not path or not os.path.lexists(full) or self.is_folder(path):
            action = f"list {self.shown(path)}"
            with suppress(FileNotFoundError), naming(action, may_be_gone=True):
                return sorted(name for name in os.listdir(full) if name.endswith(suffix))
        return []

    def remove_stale_temporaries(self, path: str) -> None:
        for name in self.names(path, TEMPORARY_SUFFIX):
            temporary = Path(self.full(path), name)
            with naming(f"remove {temporary}"), suppress(FileNotFoundError):
                if time.time() - temporary.stat().st_mtime > STALE_TEMPORARY_S:
                    temporary.unlink()


def open_folder(location: str) -> Folder:
    where = Location(location)
    if where.is_local:
        return LocalFolder(location)
    try:
        filesystem, root = _connect(location)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StoreError(f"results location '{where.shown}' cannot be opened: {error}") from error
    return Folder(location, filesystem, root)


def _connect(url: str) -> tuple[fs.FileSystem, str]:
    if url.startswith("s3://") and DELAYED_OPEN not in url:
        with suppress(pa.ArrowInvalid):  # an older pyarrow does not have the option
            return _connect(f"{url}{'&' if '?' in url else '?'}{DELAYED_OPEN}=true")
    filesystem, root = fs.FileSystem.from_uri(url)
    return filesystem, root


@contextmanager
def naming(action: str, *, may_be_gone: bool = False) -> Iterator[None]:
    """Turn file system errors into StoreError. If `may_be_gone`, keep FileNotFoundError."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if may_be_gone and isinstance(error, FileNotFoundError):
            raise
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise StoreError(f"cannot {action}: {reason}") from error


def _make_folder(folder: Path) -> None:
    """Make a folder and its missing parents, and sync each parent to disk."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
