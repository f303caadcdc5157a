"""Nights on the fake machine that several tests go on from are measured once."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.orchestrator.nightly import fake_nights
from tests.orchestrator.nightly.fake_nights import CRASH, FILES, RunNight

Measured = Callable[[str, int], Path]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def play(here: Path) -> RunNight:
    return fake_nights.play


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """The folder of so many first nights by this script."""
    found: dict[tuple[str, int], Path] = {}

    def measure(script: str, nights: int) -> Path:
        if (script, nights) not in found:
            folder = tmp_path_factory.mktemp("measured")
            for name, text in (FILES | {"script.yaml": script}).items():
                (folder / name).write_text(text)
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(folder)
                for day in range(1, nights + 1):
                    fake_nights.play(day)
            found[script, nights] = folder
        return found[script, nights]

    return measure


@pytest.fixture
def after(here: Path, measured: Measured) -> Callable[[str, int], None]:
    """`after(script, 6)`: that many nights were."""

    def go_on(script: str, nights: int) -> None:
        (here / "script.yaml").write_text(script)
        shutil.copytree(measured(script, nights) / "results", here / "results", symlinks=True)

    return go_on


@pytest.fixture
def first_night(after: Callable[[str, int], None]) -> None:
    """It was measured."""
    after(FILES["script.yaml"], 1)


@pytest.fixture
def crashed(after: Callable[[str, int], None]) -> None:
    """Since the second of two nights a convolution crashes."""
    after(CRASH, 2)
