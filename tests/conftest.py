"""Fixtures that several folders share."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXIT_STATUS = pytest.StashKey[int]()
MUST_RUN = "SWEEP_CI"  # set where everything that tests need is installed: they must not skip there


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
def need() -> Callable[[bool, str], None]:
    """Skip a test that the machine cannot run, saying why; under SWEEP_CI fail it."""

    def check(there: bool, what: str) -> None:
        if there:
            return
        if os.environ.get(MUST_RUN):
            pytest.fail(f"{MUST_RUN} is set, and this machine lacks {what}")
        pytest.skip(f"needs {what}")

    return check


@pytest.fixture
def faulty() -> str:
    """The file of workloads that fail, as a suite names it; append `:name`."""
    return str(Path(__file__).parent / "orchestrator" / "faulty.py")


@pytest.fixture(autouse=True)
def _skip_without_cuda(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs CUDA")
