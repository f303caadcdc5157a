"""The folder of a store: a local folder, or a prefix of an object store. Paths are relative.

A file is written whole or not at all. An object store guarantees this for each PUT. In a local
folder, a temporary file is written, synced and renamed; then the folder is synced.
"""

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
DELAYED_OPEN = "allow_delayed_open"  # pyarrow's name for sending a small object in one request
STALE_TEMPORARY_S = 600  # no write takes as long: older temporary files are of a killed writer


class Folder:
    """Files below one root of a pyarrow file system."""

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
        """Return the file's bytes. Raise FileNotFoundError if it is gone."""
        with (
            naming(f"read {self.shown(path)}", may_be_gone=True),
            self.filesystem.open_input_file(self.full(path)) as stream,
        ):
            return stream.read_buffer()

    def require_file(self, path: str) -> None:
        """Do nothing: an object store has only regular files."""

    def is_folder(self, path: str) -> bool:
        return True  # in an object store every prefix counts as a folder

    def names(self, path: str, suffix: str = "") -> list[str]:
        """Return the sorted names in `path` that end in `suffix`. A missing folder has no names."""
        selector = fs.FileSelector(self.full(path), allow_not_found=True)
        with naming(f"list {self.shown(path)}"):
            listed: list[str] = [info.base_name for info in self.filesystem.get_file_info(selector)]
        return sorted(name for name in listed if name.endswith(suffix))

    def files_below(self, prefix: str) -> list[str]:
        """Return the Parquet files, at any depth, whose paths begin with `prefix`."""
        selector = fs.FileSelector(self.full(""), allow_not_found=True, recursive=True)
        with naming(f"list {self.shown()}"):
            files = [info.path for info in self.filesystem.get_file_info(selector)]
        below = [path.removeprefix(self.full("")).lstrip("/") for path in files]
        return [path for path in below if path.startswith(prefix) and path.endswith(".parquet")]

    def rename(self, path: str, new_path: str) -> None:
        with naming(f"rename {self.shown(path)}", may_be_gone=True):
            self.filesystem.move(self.full(path), self.full(new_path))

    def remove(self, path: str) -> None:
        """Remove a file; do nothing if it is gone."""
        action = f"remove {self.shown(path)}"
        with suppress(FileNotFoundError), naming(action, may_be_gone=True):
            self.filesystem.delete_file(self.full(path))

    def remove_stale_temporaries(self, path: str) -> None:
        """Do nothing: an object store keeps no object that was sent in part."""

    def shown(self, path: str = "") -> str:
        """Return the full path or URL, without options; bytes that are no UTF-8 are escaped."""
        return f"{self._scheme}{self.full(path)}".encode(errors="backslashreplace").decode()

    def url(self, path: str) -> str:
        """Return a pattern for DuckDB. `path` may contain wildcards; `root` is escaped."""
        return f"{self._scheme}{glob.escape(self.root)}/{path}"


class LocalFolder(Folder):
    """A folder of this machine; a file is on disk once `write` has returned."""

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
        """Raise TornFileError unless the path is a regular file (no pipe) with a UTF-8 name."""
        try:
            kind = os.stat(self.full(path)).st_mode
        except OSError as error:
            if os.path.islink(self.full(path)):
                raise TornFileError(f"{self.shown(path)} is a link that leads nowhere") from None
            if isinstance(error, FileNotFoundError):
                raise
            raise StoreError(f"cannot read {self.shown(path)}: {error.strerror}") from error
        if not stat.S_ISREG(kind):
            raise TornFileError(f"{self.shown(path)} is not a regular file")
        if path.encode(errors="replace").decode() != path:  # surrogates: bytes that are no UTF-8
            raise TornFileError(f"{self.shown(path)} has a name that is no UTF-8")

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(self.full(path))

    def rename(self, path: str, new_path: str) -> None:
        with naming(f"rename {self.shown(path)}", may_be_gone=True):
            os.rename(self.full(path), self.full(new_path))

    def names(self, path: str, suffix: str = "") -> list[str]:
        # pyarrow's listing would stat each file, and files may be removed meanwhile
        full = self.full(path)
        # a file or looping link in place of a folder has no names; at the root it is an error
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
        with suppress(pa.ArrowInvalid):  # an older pyarrow lacks the option, sends three requests
            return _connect(f"{url}{'&' if '?' in url else '?'}{DELAYED_OPEN}=true")
    filesystem, root = fs.FileSystem.from_uri(url)
    return filesystem, root


@contextmanager
def naming(action: str, *, may_be_gone: bool = False) -> Iterator[None]:
    """Turn a file system's error into a StoreError, `cannot ACTION: reason`. If `may_be_gone`,
    leave a FileNotFoundError as it is.
    """
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if may_be_gone and isinstance(error, FileNotFoundError):
            raise
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise StoreError(f"cannot {action}: {reason}") from error


def _make_folder(folder: Path) -> None:
    """Make a folder and its missing parents. Sync each parent, so that no folder is lost."""
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
