"""Which of a user's files travel with a job."""

from pathlib import Path

import pytest

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.remote.job import _take_file


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "mine.py").write_text("NET = 1\n")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_below_the_folder_keeps_its_place(here: Path) -> None:
    _take_file("nets/mine.py", here / "work")
    assert (here / "work/nets/mine.py").read_text() == "NET = 1\n"


def test_a_file_elsewhere_or_none_is_refused(here: Path) -> None:
    for place in (str(here / "nets/mine.py"), "nets/../nets/mine.py"):
        with pytest.raises(SpecError, match="must lie in the current folder or below it"):
            _take_file(place, here / "work")
    for place in ("nets/other.py", "nets"):
        with pytest.raises(SpecError, match="there is no such file"):
            _take_file(place, here / "work")
