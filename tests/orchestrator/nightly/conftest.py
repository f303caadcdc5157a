"""A launch file, its suite and its script, and nights of them on the fake machine: what several tests go on from is
measured once.
"""

import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cudnn_sweep.analysis.nights.outcome import NightOutcome
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.nightly.night import run_night
from cudnn_sweep.orchestrator.nightly.request import Diary
from cudnn_sweep.orchestrator.planning.options import NightOptions
from cudnn_sweep.orchestrator.planning.spec import NightName
from tests.fake_machine import read_fake_machine

FILES = {
    "cluster.yaml": """
cluster_name: lab
metadata:
  sweep:
    nightly: {suite: suite.yaml}
""",
    "suite.yaml": """
replicates: 3
cells:
  - workload: conv
    problem: [tutorials/rgb224, tutorials/rgb256, tutorials/vgg16_conv3_2]
""",
    "script.yaml": "trial_s: 10.0",
}
RunNight = Callable[..., int]
CRASH = "effects: [{where: {problem: tutorials/rgb224}, from: 2026-11-02, status: crash}]"


def options_of(day: int, **options: Any) -> NightOptions:
    return NightOptions(file=Path("cluster.yaml"), night=date(2026, 11, day), **options)


def play_night(
    day: int = 1, console: Console | None = None, *, is_fake: bool = True, **options: Any
) -> int:
    """Its exit code."""
    night, script = date(2026, 11, day), Path("script.yaml")
    chosen: dict[str, Any] = {"file": Path("cluster.yaml"), "night": night} | options
    asked = NightOptions(**chosen)
    place = read_fake_machine(script, night) if is_fake else None
    return run_night(asked, {}, console or Console(quiet=True), place)


def outcome(here: Path, day: int = 1) -> NightOutcome:
    diary = Diary(store=open_store(str(here / "results")), launch="lab")
    found = diary.of(NightName(date=date(2026, 11, day), launch="lab"))
    assert found is not None
    return found


Measured = Callable[[str, int], Path]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def play(here: Path) -> RunNight:
    return play_night


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
                    play_night(day)
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
