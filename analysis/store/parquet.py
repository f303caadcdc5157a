"""Reads and writes Parquet files with checksums. A damaged file is called torn.

Parquet has a checksum for each page, but none for the footer. So the name of a file contains a
CRC-32, which covers all bytes of a small file, but only the footer of a large file.
"""

import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import product

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from cudnn_sweep.analysis.errors import StoreError, TornFileError
from cudnn_sweep.analysis.store.folder import Folder
from cudnn_sweep.analysis.store.schema import SCHEMA_VERSION, arrow_schema

UNREADABLE = (OSError, ValueError, pa.ArrowException)  # errors of pyarrow for damaged bytes
FEW_ROWS = 2
GROUP_ROWS = 5000  # rows of a row group, about 12 MB
SMALL_BYTES = 2**20  # files up to this size are read completely, in a millisecond
END_BYTES = 8  # bytes after the footer: its length and Parquet's magic number
DIGEST = re.compile(r"\.(crc|footer)-([0-9a-f]{8})\.parquet$")
VERSION = "schema_version"
DATES = ("started_at", "ended_at")
KEYS = (VERSION, "sweep_id", "trial_id", "attempt_id", "retry", "status", *DATES)  # required
LAST_DATE_US = 253_402_300_799_999_999  # the end of the year 9999, which is the last in Python
FORMAT = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)


def encode(table: pa.Table) -> pa.Buffer:
    """Encode a table as Parquet. Tables of one or two rows are not compressed."""
    many = table.num_rows > FEW_ROWS
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=GROUP_ROWS,
        compression="zstd" if many else "none",
        use_dictionary=many,
        # statistics of all columns and Arrow's schema would double the size of a small file
        write_statistics=[*KEYS],
        store_schema=False,
        write_page_checksum=True,
    )
    return sink.getvalue()


def file_name(stem: str, content: pa.Buffer) -> str:
    """Return a file name that contains the checksum of the content."""
    if len(content) <= SMALL_BYTES:
        return f"{stem}.crc-{zlib.crc32(content):08x}.parquet"
    return f"{stem}.footer-{zlib.crc32(_footer(pa.BufferReader(content))):08x}.parquet"


def read(folder: Folder, path: str, columns: list[str] | None = None) -> pa.Table:
    """Read a file. Raise TornFileError if it is damaged and FileNotFoundError if it is missing."""
    with _damage_named(folder, path), _opened(folder, path) as file:
        return _decode(folder.shown(path), file, columns)


def open_fragment(folder: Folder, path: str) -> ds.ParquetFileFragment:
    """Open a file, but read only its footer. Raise the same errors as `read`."""
    with _damage_named(folder, path):
        _opened(folder, path).close()
        fragment = FORMAT.make_fragment(folder.full(path), folder.filesystem)
        fragment.ensure_complete_metadata()
        _check_schema(folder.shown(path), fragment.physical_schema)
        _check_keys_of(folder.shown(path), fragment.metadata)
        return fragment


def is_torn(folder: Folder, path: str) -> bool:
    """Return whether a file is damaged. Raise StoreError if it cannot be read."""
    try:
        folder.require_file(path)
        content = pa.BufferReader(folder.read(path))
        _check_digest(folder.shown(path), path, content)
    except TornFileError:
        return True
    try:
        _decode(folder.shown(path), content)
    except (TornFileError, *UNREADABLE):
        return True
    return False


@contextmanager
def _damage_named(folder: Folder, path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except UNREADABLE as error:
        if is_torn(folder, path):
            raise TornFileError(f"{folder.shown(path)} is not a complete Parquet file") from error
        raise StoreError(f"cannot read {folder.shown(path)}: {error}") from error


def _opened(folder: Folder, path: str) -> pa.NativeFile:
    folder.require_file(path)
    digest = DIGEST.search(path)
    if digest is not None and digest[1] == "crc":
        file = pa.BufferReader(folder.read(path))
    else:
        file = folder.filesystem.open_input_file(folder.full(path))
    _check_digest(folder.shown(path), path, file)
    return file


def _footer(file: pa.NativeFile) -> bytes:
    size = file.size()
    end: bytes = file.read_at(END_BYTES, max(0, size - END_BYTES))
    footer_bytes = min(size, int.from_bytes(end[:4], "little") + END_BYTES)
    footer: bytes = file.read_at(footer_bytes, size - footer_bytes)
    return footer


def _check_digest(shown: str, path: str, file: pa.NativeFile) -> None:
    digest = DIGEST.search(path)
    if digest is None:
        return
    content = _footer(file) if digest[1] == "footer" else file.read_at(file.size(), 0)
    if zlib.crc32(content) != int(digest[2], 16):
        raise TornFileError(f"{shown} is damaged: it does not match the checksum in its name")


def _decode(shown: str, source: pa.NativeFile, columns: list[str] | None = None) -> pa.Table:
    with pq.ParquetFile(source, page_checksum_verification=True) as file:
        _check_schema(shown, file.schema_arrow)
        table = file.read(columns)
    if any(table[key].null_count for key in KEYS if columns is None or key in columns):
        raise TornFileError(f"{shown} has null in a required column")
    for name in {VERSION, *DATES} & {*table.column_names}:
        ends = pc.min_max(table[name].cast(pa.int64())).as_py()
        _check_range(shown, name, ends["min"], ends["max"])
    return table


def _check_keys_of(shown: str, metadata: pq.FileMetaData) -> None:
    """Check required columns, versions and dates by the statistics in the footer."""
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    wanted = [at for at in range(metadata.num_columns) if metadata.schema.column(at).path in KEYS]
    for group, at in product(groups, wanted):
        statistics = group.column(at).statistics
        if statistics is not None and statistics.null_count:
            raise TornFileError(f"{shown} has null in a required column")
        if statistics is not None and statistics.has_min_max:
            name = metadata.schema.column(at).path
            _check_range(shown, name, statistics.min_raw, statistics.max_raw)


def _check_range(shown: str, name: str, least: int | None, most: int | None) -> None:
    if name == VERSION and (most or 0) > SCHEMA_VERSION:
        raise StoreError(
            f"{shown} has rows of schema {most}, but this version of cudnn-sweep reads only up to "
            f"schema {SCHEMA_VERSION}; update cudnn-sweep"
        )
    if name in DATES and not 0 <= (least or 0) <= (most or 0) <= LAST_DATE_US:
        raise TornFileError(f"{shown} has a date outside the years 1970 to 9999")


def _check_schema(shown: str, schema: pa.Schema) -> None:
    """Raise TornFileError if a required column is missing or a column has a wrong type."""
    if not _is_ours(schema.remove_metadata()):
        raise TornFileError(f"{shown} does not contain records of cudnn-sweep")


@cache
def _is_ours(schema: pa.Schema) -> bool:
    """Return whether a schema is compatible with the schema of results."""
    own = arrow_schema()
    shared = [field for field in schema if field.name in own.names]
    if len(set(schema.names)) != len(schema.names) or not set(KEYS) <= set(schema.names):
        return False
    with suppress(pa.ArrowException):
        pa.unify_schemas([own, pa.schema(shared)], promote_options="default")
        return True
    return False
