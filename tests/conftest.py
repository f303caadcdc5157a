"""Fixtures that several folders share."""

from __future__ import annotations

import ast
import gc
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudnn_sweep.orchestrator.process.client import ForkServer
    from tests.made_up_night import Night
    from tests.makers import Need

# A thread that waits for another's share of a step sleeps: spinning, it would keep that one from its CPU
# where more processes than CPUs are busy.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ["XDG_CACHE_HOME"] = str(Path(__file__).parents[1] / ".pytest_cache/home")

# What a shell starts in the background ignores Ctrl-C, and so would all that tests start and interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parents[1]
INSTALLED = ".installed"  # links: the folders under the names that they are imported by
EXIT_STATUS = pytest.StashKey[int]()
MUST_RUN = "SWEEP_CI"  # set where everything that tests need is installed: they must not skip there

GROUPS = ("measuring", "clustered", "waiting")  # marks of files and tests; all others give way
NICE = 10  # of those: beside a process that is busy they get a tenth of a core


# What is imported while tests are collected stays: to look for garbage in it takes a fifth of that time.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Under `pytest -n 3` each group has a process. Whichever is done takes the other files, giving way."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class ByGroup(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid) or nodeid.partition("::")[0]

    config.option.loadscopereorder = False  # not the longest first, but the groups
    return ByGroup(config, log)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark each long test as slow, too."""
    if item.get_closest_marker("long"):
        item.add_marker("slow")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort tests: first the groups, of which each process takes one, then files with slow tests. A long test at
    the end would keep the run waiting.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}

    def place(item: pytest.Item) -> tuple[int, bool]:
        group = _group(item.nodeid)
        return GROUPS.index(group) if group else len(GROUPS), item.path not in slow

    items.sort(key=place)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if hasattr(item.config, "workerinput") and not _group(item.nodeid):
        os.setpriority(os.PRIO_PROCESS, 0, NICE)


def _group(nodeid: str) -> str | None:
    """By the marks that stand in the file: where xdist deals tests out, all that it has are their names."""
    file, _, test = nodeid.partition("::")
    groups = _groups(file)
    return groups.get("pytestmark") or groups.get(test.partition("[")[0])


@cache
def _groups(file: str) -> dict[str, str]:
    """Of the file's tests that are marked, by name; of all of them under `pytestmark`."""
    text = (ROOT / file).read_text(encoding="utf-8")
    there = [group for group in GROUPS if f"pytest.mark.{group}" in text]
    found: dict[str, str] = {}
    for each in ast.parse(text).body if there else ():
        match each:
            case ast.Assign(targets=[ast.Name(id="pytestmark" as name)]):
                marks = ast.unparse(each.value)
            case ast.FunctionDef(name=name):
                marks = " ".join(map(ast.unparse, each.decorator_list))
            case _:
                continue
        found.update((name, group) for group in there if f"pytest.mark.{group}" in marks)
    return found


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
def server() -> Iterator[ForkServer]:
    """One for all tests: to start one takes 3 s."""
    from cudnn_sweep.orchestrator.process.client import ForkServer

    with ForkServer() as server:
        yield server


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


@pytest.fixture
def night() -> Night:
    from tests.made_up_night import made_up_night

    return made_up_night()
