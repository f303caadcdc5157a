"""Fixtures that several folders share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cudnn_sweep.analysis.nightly.outcome import Finding, NightOutcome, Series
    from tests.makers import Need

ROOT = Path(__file__).parents[1]
INSTALLED = ".installed"  # links: the folders under the names that they are imported by
EXIT_STATUS = pytest.StashKey[int]()
MUST_RUN = "SWEEP_CI"  # set where everything that tests need is installed: they must not skip there

GROUPS = ("waiting", "measuring")  # marks of test files; all others give way
NICE = 10  # of the others' process: beside one that is busy it gets a tenth of a core


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Under `pytest -n 3` one process measures, one waits, and one that always gives way has the rest."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class ByGroup(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid.partition("::")[0]) or "giving way"

    return ByGroup(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if hasattr(item.config, "workerinput") and not _group(item.nodeid.partition("::")[0]):
        os.setpriority(os.PRIO_PROCESS, 0, NICE)


@cache
def _group(file: str) -> str | None:
    """The mark that stands in the file: where xdist deals tests out, all that it has are their names."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return next((name for name in GROUPS if f"pytest.mark.{name}" in text), None)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    session.config.stash[EXIT_STATUS] = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End at once: after torch and Ray in one process, DuckDB's bindings would report at length the
    reference cycles that those leave behind.
    """
    if EXIT_STATUS in config.stash:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(config.stash[EXIT_STATUS])


@pytest.fixture(scope="session")
def need() -> Need:
    """Skip a test that the machine cannot run, saying why; under SWEEP_CI fail it."""

    def check(there: bool, what: str) -> None:
        if there:
            return
        if os.environ.get(MUST_RUN):
            pytest.fail(f"{MUST_RUN} is set, and this machine lacks {what}")
        pytest.skip(f"needs {what}")

    return check


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageCopy:
    """Our code, documents and tests as files that a test may change; what else is installed is shared."""

    root: Path

    def add(self, name: str, text: str) -> None:
        """A new file, named by its path in the repository."""
        with (self.root / name).open("x", encoding="utf-8") as file:
            file.write(text)

    def edit(self, name: str, before: str, after: str) -> None:
        """Replace a passage that stands in the file once."""
        text = (self.root / name).read_text(encoding="utf-8")
        assert text.count(before) == 1, f"{name} has {text.count(before)} of: {before}"
        (self.root / name).write_text(text.replace(before, after), encoding="utf-8")

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the copy's root, with the copy as `cudnn_sweep`: `python("-m", "pytest", ...)`."""
        own = {
            "PYTHONPATH": str(self.root / INSTALLED),
            "PYTEST_DEBUG_TEMPROOT": str(self.root.parent),
        }
        return subprocess.run(
            [sys.executable, *arguments],
            check=False,
            cwd=self.root,
            env={**os.environ, **own},
            capture_output=True,
            text=True,
        )


@pytest.fixture
def package_copy(tmp_path: Path) -> PackageCopy:
    """The working tree: tracked files, and those that the next commit may add."""
    list_files = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(list_files, cwd=ROOT, check=True, capture_output=True, text=True)
    copy = PackageCopy(root=tmp_path / "copy")
    for name in listed.stdout.split("\0"):
        file = ROOT / name
        if file.is_symlink() or file.is_file():
            (copy.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy.root / name, follow_symlinks=False)
    return copy


@pytest.fixture(scope="session")
def faulty() -> str:
    """The file of workloads that fail, as a suite names it; append `:name`."""
    return str(Path(__file__).parent / "orchestrator" / "faulty.py")


@pytest.fixture(autouse=True)
def _skip_without_cuda(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs CUDA")


HOSTILE = "a|b `c` ``` </script><img src=x onerror='window.pwned=1'> $(d) \x1b[31m"


@pytest.fixture
def night() -> tuple[NightOutcome, list[Series]]:
    """A made-up night after 29 others, in which torch changed two nights ago: a series got slower and
    another, whose cell has a name that attacks, chooses other kernels; one waits, one got better, one
    has no value.
    """
    from cudnn_sweep.analysis.nightly import outcome as night

    days = [date(2026, 2, 1) + timedelta(days=day) for day in range(30)]
    torch = night.Change(part="torch", before="2.9.0", now="2.10.0")

    def series(metric: str, cell: str, value: Callable[[int], float | str | None]) -> Series:
        points = tuple(
            night.NightPoint(
                night=f"{day:%Y%m%d}-0230",
                date=day,
                value=value(place),
                processes=3,
                software_hash="old" if place < 27 else "new",
            )
            for place, day in enumerate(days)
        )
        key = night.SeriesKey(
            metric=metric,
            env_hash="env",
            gpu="H200",
            cell_id=cell[:4],
            cell=cell,
            settings="benchmark=true",
        )
        return night.Series(key=key, points=points)

    def finding(one: Series, since: int, **found: Any) -> Finding:
        usual: dict[str, Any] = {
            "state": "confirmed",
            "direction": "worse",
            "before": one.points[0].value,
            "now": one.points[-1].value,
            "ratio": None,
            "ratio_low": None,
            "ratio_high": None,
            "blocks": 0,
            "cause": "software",
            "moved": (torch,),
        }
        return night.Finding(
            key=one.key,
            nights=26,
            since=days[since],
            command=f"sweep launch cluster.yaml --only cell_id={one.key.cell_id}",
            **{**usual, **found},
        )

    def noise(place: int) -> float:
        return 1 + (place * 7 % 5 - 2) / 200

    slower = series(
        "steady_wall", "conv 8x64", lambda n: None if n == 9 else noise(n) * (1 + (n >= 27) / 10)
    )
    other = series("engine", HOSTILE, lambda n: "winograd" if n < 27 else "implicit gemm")
    odd = series("steady_device", "conv 4x8", lambda n: noise(n) * (1.5 if n in (12, 29) else 1.0))
    better = series("peak_memory", "vgg16", lambda n: 2.0**30 * (2 if n < 20 else 1))
    usual = series("cold_empty", "vgg16", lambda n: 800 * noise(n))
    never = replace(series("cold_warm", "vgg16", lambda _: None), is_judged=False)
    ratio = {"ratio": 1.1, "ratio_low": 1.08, "ratio_high": 1.12}
    outcome = night.NightOutcome(
        night=slower.points[-1].night,
        date=days[-1],
        launch_file="cluster.yaml",
        suite="nightly",
        started_at=datetime(2026, 3, 2, 2, 30, tzinfo=UTC),
        ended_at=datetime(2026, 3, 2, 3, 10, tzinfo=UTC),
        planned_trials=30,
        recorded_trials=30,
        state="regression",
        reasons=(),
        nights=29,
        fine_series=1,
        insufficient_series=1,
        findings=(
            finding(slower, 27, blocks=12, **ratio),
            finding(other, 27, direction="other", blocks=6),
            finding(odd, 29, state="waiting", ratio=1.5, cause="hardware", moved=()),
            finding(better, 20, direction="better", ratio=0.5, cause="unknown", moved=()),
        ),
        changes=(night.Change(part="driver", before="580.65", now="580.82"),),
        new_baseline=None,
        versions=(night.Version(date=days[27], software_hash="new", changes=(torch,)),),
    )
    return outcome, [never, usual, better, odd, other, slower]
