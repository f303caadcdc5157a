"""Which blocks count as split or mended, and where results are read, of made-up trials and folders."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.analysis.errors import StoreError
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
        file: "is a file; results are a folder",
        tmp_path / "none": "there is no folder",
        tmp_path: rf"holds no results, but folders below it do: --results {deep.parent}$",
    }.items():
        with pytest.raises(StoreError, match=message):
            open_stored([str(wrong)])
    empty = tmp_path / "empty"
    empty.mkdir()
    assert len(open_stored([str(empty)]).stores) == 1
    assert len(open_stored([str(empty), str(empty)]).stores) == 2
