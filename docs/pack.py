"""Rewrites stored Parquet files as small as they get: the same rows, for results that are committed.

    python docs/pack.py docs/results analysis/reference

Each column is written in the smallest of three encodings, at a high level of zstd. A file is replaced once the new
one gives equal rows. The command prints the bytes of all files before and after.
"""

import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cudnn_sweep.analysis.store.parquet import DIGEST, GROUP_ROWS, KEYS, file_name

LEVEL = 19
SPLIT = (
    "DOUBLE",
    "INT64",
)  # what BYTE_STREAM_SPLIT takes: first bytes together, then second ones, ...


def main(folders: list[str]) -> None:
    files = [file for folder in folders for file in sorted(Path(folder).rglob("*.parquet"))]
    before = sum(file.stat().st_size for file in files)
    after = sum(pack(file) for file in files)
    print(f"{len(files)} files: {before:,} bytes, now {after:,}")


def pack(file: Path) -> int:
    """Replace a file by a smaller one of the same rows. Return its bytes."""
    table = pq.read_table(file, partitioning=None)
    content = smallest(table)
    if len(content) >= file.stat().st_size:
        return file.stat().st_size
    if str(pq.read_table(pa.BufferReader(content)).to_pylist()) != str(table.to_pylist()):
        raise ValueError(f"{file}: the packed rows differ")
    (
        file.parent / file_name(DIGEST.sub("", file.name).removesuffix(".parquet"), content)
    ).write_bytes(content)
    file.unlink()
    return len(content)


def smallest(table: pa.Table) -> pa.Buffer:
    """Return the table, each column in the smallest of three encodings: as it is, by a dictionary, or split by byte."""
    plain = dict(columns(written(table)))
    numbers = [name for name, (kind, _) in plain.items() if kind in SPLIT]
    by_dictionary = dict(columns(written(table, dictionary=[*plain])))
    by_byte = plain | dict(columns(written(table, split=numbers)))
    dictionary = [name for name in plain if by_dictionary[name] < min(plain[name], by_byte[name])]
    split = [name for name in numbers if by_byte[name] < min(plain[name], by_dictionary[name])]
    return written(table, dictionary=dictionary, split=split)


def written(
    table: pa.Table, dictionary: Collection[str] = (), split: Collection[str] = ()
) -> pa.Buffer:
    """Return the bytes of a file as the store writes it, with these encodings."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=GROUP_ROWS,
        compression="zstd",
        compression_level=LEVEL,
        use_dictionary=[*dictionary],
        use_byte_stream_split=[*split],
        write_statistics=[*KEYS],
        store_schema=False,
        write_page_checksum=True,
    )
    return sink.getvalue()


def columns(content: pa.Buffer) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield each column's path, with its type and bytes."""
    metadata = pq.read_metadata(pa.BufferReader(content))
    for at in range(metadata.num_columns):
        parts = [metadata.row_group(group).column(at) for group in range(metadata.num_row_groups)]
        size = sum(part.total_compressed_size for part in parts)
        yield parts[0].path_in_schema, (parts[0].physical_type, size)


if __name__ == "__main__":
    main(sys.argv[1:])
