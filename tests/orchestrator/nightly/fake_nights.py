"""A launch file, its suite and its script, and nights of them on the fake machine."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cudnn_sweep.analysis.nightly.outcome import NightOutcome
from cudnn_sweep.analysis.nightly.reports import as_json, junit, markdown, write
from cudnn_sweep.analysis.storing.store import open_store
from cudnn_sweep.orchestrator.nightly.diary import Diary
from cudnn_sweep.orchestrator.nightly.night import run_night
from cudnn_sweep.orchestrator.planning.night_name import NightName
from cudnn_sweep.orchestrator.planning.options import NightOptions

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
PLAIN = [as_json.REPORT, junit.REPORT, markdown.REPORT]
CRASH = "effects: [{where: {problem: tutorials/rgb224}, from: 2026-11-02, status: crash}]"


def options_of(day: int, **options: Any) -> NightOptions:
    return NightOptions(file=Path("cluster.yaml"), night=date(2026, 11, day), **options)


def play(day: int = 1, console: Console | None = None, pages: bool = False, **options: Any) -> int:
    """Its exit code. `pages`: with those for a browser, which take half of the time."""
    chosen: dict[str, Any] = {"file": Path("cluster.yaml"), "fake": Path("script.yaml")}
    asked = NightOptions(**(chosen | {"night": date(2026, 11, day)} | options))
    with pytest.MonkeyPatch.context() as patch:
        if not pages:
            patch.setattr(write, "night_reports", lambda: PLAIN)
        return run_night(asked, {}, console or Console(quiet=True))


def outcome(here: Path, day: int = 1) -> NightOutcome:
    diary = Diary(store=open_store(str(here / "results")), launch="lab")
    found = diary.of(NightName(date=date(2026, 11, day), launch="lab"))
    assert found is not None
    return found
