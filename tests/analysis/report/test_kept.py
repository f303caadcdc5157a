"""A text that a report keeps for the next one is used only if it is whole and nobody else could write it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cudnn_sweep.analysis.report.delivery import kept
from tests.makers import Need


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a kept file that holds `first` for version 1."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kept("a.js", "1", lambda: "first") == "first"
    return tmp_path / "cudnn-sweep" / "a.js"


def test_a_kept_text_is_not_made_again_and_has_no_file_beside_it(file: Path) -> None:
    assert kept("a.js", "1", lambda: "second") == "first"
    assert kept("a.js", "2", lambda: "a\n\nb\n") == kept("a.js", "2", lambda: "") == "a\n\nb\n"
    assert os.listdir(file.parent) == ["a.js"]


def test_another_version_replaces_the_text(file: Path) -> None:
    assert kept("a.js", "2", lambda: "second") == "second"
    assert kept("a.js", "2", lambda: "third") == "second"


def _link(file: Path) -> None:
    file.rename(file.with_name("other.js"))
    file.symlink_to("other.js")


def _pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.write_bytes(file.read_bytes()[:-1]),
        lambda file: file.write_bytes(b"evil"),
        lambda file: file.write_bytes(b"\xff\n\xff"),
        lambda file: file.chmod(0o666),
        lambda file: file.chmod(0o620),
        _link,
        _pipe,
    ],
)
def test_what_is_damaged_or_others_can_write_is_made_again(
    file: Path, spoil: Callable[[Path], object]
) -> None:
    spoil(file)
    assert kept("a.js", "1", lambda: "second") == "second"
    assert kept("a.js", "1", lambda: "third") == "second"


def test_a_file_of_another_user_is_not_read(file: Path, need: Need) -> None:
    need(os.getuid() == 0, "root")
    os.chown(file, 12345, 12345)
    assert kept("a.js", "1", lambda: "second") == "second"


def test_without_a_folder_the_text_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plain").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "plain"))
    assert kept("a.js", "1", lambda: "first") == "first"
