"""Tables as Parquet bytes, with checksums, and back: what cannot be read back is torn."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from cudnn_sweep.analysis.errors import StoreError, TornFileError
from cudnn_sweep.analysis.folder import Folder

UNREADABLE = (OSError, pa.ArrowException)  # pyarrow reports damaged bytes as either
GROUP_ROWS = 5000  # read at a time by one core: about 12 MB of samples


def encode(table: pa.Table) -> pa.Buffer:
    """Many rows, small on disk: measured times hardly repeat, but their high bytes do."""
    measured, others = _columns_by_kind(table.schema)
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=GROUP_ROWS,
        compression="zstd",
        use_dictionary=others,
        column_encoding=dict.fromkeys(measured, "BYTE_STREAM_SPLIT"),
        write_page_checksum=True,
    )
    return sink.getvalue()


def encode_few(table: pa.Table) -> pa.Buffer:
    """A row or some, without what pays only for many: of one a quarter of the bytes, read in a third of
    the time.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        store_schema=False,
        write_page_checksum=True,
    )
    return sink.getvalue()


def read(folder: Folder, path: str, columns: list[str] | None = None) -> pa.Table:
    """Some columns of one file; TornFileError if damaged, FileNotFoundError if it is gone."""
    with _damage_named(folder, path), folder.filesystem.open_input_file(folder.full(path)) as file:
        return _decode(file, columns)


def rows(folder: Folder, path: str) -> int:
    """How many rows a file's footer promises; raises as `read` does."""
    with _damage_named(folder, path), folder.filesystem.open_input_file(folder.full(path)) as file:
        promised: int = pq.read_metadata(file).num_rows
        return promised


def open_fragment(folder: Folder, path: str) -> ds.ParquetFileFragment:
    """A file to be scanned later, its footer read now; raises as `read` does."""
    with _damage_named(folder, path):
        fragment = ds.ParquetFileFormat().make_fragment(folder.full(path), folder.filesystem)
        fragment.ensure_complete_metadata()
        return fragment


@contextmanager
def _damage_named(folder: Folder, path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except UNREADABLE as error:
        if is_torn(folder, path):
            raise TornFileError(f"{folder.shown(path)} is no whole Parquet file") from error
        raise StoreError(f"cannot read {folder.shown(path)}: {error}") from error


def is_torn(folder: Folder, path: str) -> bool:
    """Whether the bytes are at fault; a file that cannot be fetched at all is a StoreError."""
    content = folder.read(path)
    try:
        _decode(pa.BufferReader(content))
    except UNREADABLE:
        return True
    return False


def _decode(source: pa.NativeFile, columns: list[str] | None = None) -> pa.Table:
    with pq.ParquetFile(source, page_checksum_verification=True) as file:
        return file.read(columns)


def _columns_by_kind(schema: pa.Schema) -> tuple[list[str], list[str]]:
    """Paths of the Parquet columns, those within lists too: floating-point numbers, and the others."""
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    stored = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    columns = [stored.column(number) for number in range(len(stored))]
    measured = [column.path for column in columns if column.physical_type == "DOUBLE"]
    return measured, [column.path for column in columns if column.path not in measured]
