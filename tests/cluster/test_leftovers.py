"""Folders for a while: what a killed process leaves is removed by the next, and nothing else is."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cudnn_sweep.cluster.leftovers import held_folder, make_held

HOLDING = """
import sys
from pathlib import Path
from cudnn_sweep.cluster.leftovers import held_folder
with held_folder("p[1]-", Path(sys.argv[1])) as folder:
    (folder / "spilled").write_text("much")
    print(folder, flush=True)
    input()
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds a folder."""
    command = [sys.executable, "-c", HOLDING, str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        yield process
        process.kill()


def test_next_one_removes_what_a_killed_process_left(
    tmp_path: Path, other: subprocess.Popen[str]
) -> None:
    assert other.stdout is not None
    left = Path(other.stdout.readline().strip())
    with held_folder("p[1]-", tmp_path) as folder:
        assert (left / "spilled").exists(), "it is held"
    other.kill()
    other.wait()
    assert left.exists() and not folder.exists()
    with held_folder("p[1]-", tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [folder]
    assert list(tmp_path.iterdir()) == []


def test_nothing_else_is_removed(tmp_path: Path) -> None:
    names = ("p-", "p-12345678", "p-12345678.held.x", "p-123456789.held", "q-12345678.held")
    for name in names:
        (tmp_path / name).mkdir()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "file").touch()
    (tmp_path / "p-87654321.held").symlink_to(tmp_path / "linked")
    with held_folder("p-", tmp_path):
        assert all((tmp_path / name).is_dir() for name in names)
        assert (tmp_path / "p-87654321.held" / "file").exists()


def test_what_still_uses_a_left_folder_is_ended_first(tmp_path: Path) -> None:
    left = tmp_path / "p-12345678.held"
    left.mkdir()
    ended = []
    _, held = make_held("p-", tmp_path, lambda folder: ended.append((folder, folder.exists())))
    assert ended == [(left, True)]
    assert not left.exists()
    os.close(held)
