"""Which blocks count as split or mended, where results are read, and what a file is named after."""

import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from cudnn_sweep.analysis.errors import StoreError
from cudnn_sweep.analysis.store.parquet import SMALL_BYTES, _footer, file_name
from cudnn_sweep.analysis.store.progress import MOST_REPEATS, SplitBlock, blocks_of
from cudnn_sweep.analysis.store.stored import open_stored


def block(number: int, slots: str, repeats: int | None = None) -> list[Any]:
    """Return the trials of a block, on slots with names of one letter."""
    of: dict[str, Any] = {
        "launch_id": "launch",
        "env_hash": "e",
        "software": "own",
        "software_hash": "h",
    }
    of |= {"block": number, "repeats_block": repeats, "status": "ok"}
    return [SimpleNamespace(slot=slot, **of) for slot in slots]


@pytest.mark.parametrize(
    ("again", "repeats", "mended"),
    [
        ([], 0, False),
        (["aa"], 1, True),
        (["a"], 1, False),
        (["ab"], 1, False),
        (["ab", "bb"], 2, True),
        (["ab", "a"], 2, False),
    ],
)
def test_a_split_block_is_mended_by_a_repeat_that_is_whole_and_not_split(
    again: list[str], repeats: int, mended: bool
) -> None:
    trials = [*block(0, "aa"), *block(1, "ab")]
    for number, slots in enumerate(again):
        trials += block(2 + number, slots, repeats=1)
    found = blocks_of(trials)
    assert found.begun == 2
    assert found.split == (SplitBlock(block=1, trials=2, repeats=repeats, mended=mended),)


@pytest.mark.parametrize(
    ("repeats", "mended", "waits"),
    [
        (0, False, True),
        (MOST_REPEATS - 1, False, True),
        (MOST_REPEATS, False, False),
        (0, True, False),
        (MOST_REPEATS, True, False),
    ],
)
def test_a_split_block_is_run_again_a_few_times(repeats: int, mended: bool, waits: bool) -> None:
    split = SplitBlock(block=1, trials=2, repeats=repeats, mended=mended)
    assert split.waits is waits


def test_results_are_read_from_a_folder_that_has_them(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    deep = tmp_path / "runs/first/sweep=one"
    deep.mkdir(parents=True)
    for wrong, message in {
        file: "is a file, but results are a folder",
        tmp_path / "none": "there is no folder",
        tmp_path: rf"contains no results, but folders below it do: --results {deep.parent}$",
    }.items():
        with pytest.raises(StoreError, match=message):
            open_stored([str(wrong)])
    empty = tmp_path / "empty"
    empty.mkdir()
    assert len(open_stored([str(empty)]).stores) == 1
    assert len(open_stored([str(empty), str(empty)]).stores) == 2


@pytest.mark.parametrize("footer_bytes", [0, 5, 300])
def test_a_large_file_is_named_after_its_footer_and_a_small_one_after_all_of_it(
    tmp_path: Path, footer_bytes: int
) -> None:
    end = bytes(range(256)) * 2
    footer = end[:footer_bytes] + footer_bytes.to_bytes(4, "little") + b"PAR1"
    small, large = b"x" * 9 + footer, b"x" * SMALL_BYTES + footer
    assert file_name("part", pa.py_buffer(small)) == f"part.crc-{zlib.crc32(small):08x}.parquet"
    name = file_name("part", pa.py_buffer(large))
    assert name == f"part.footer-{zlib.crc32(footer):08x}.parquet"
    (tmp_path / name).write_bytes(large)
    with pa.OSFile(str(tmp_path / name)) as file:
        assert _footer(file) == footer
    limit = b"x" * (SMALL_BYTES - len(footer)) + footer
    assert ".crc-" in file_name("part", pa.py_buffer(limit))


def test_a_torn_end_of_a_file_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    for content in (b"", b"PAR", b"x" * 20, b"\xff" * 8):
        (tmp_path / "torn").write_bytes(content)
        with pa.OSFile(str(tmp_path / "torn")) as file:
            assert _footer(file) == content
