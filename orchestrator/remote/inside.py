"""A launch on a node of a running cluster, as a RayJob's: the driver is a process here, and followed."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from cudnn_sweep.analysis.location import Location
from cudnn_sweep.orchestrator.remote.follow import Follower, Heard
from cudnn_sweep.orchestrator.remote.request import RemoteRequest, write_request
from cudnn_sweep.orchestrator.remote.staging import VARIABLES, take_own_code

DRIVER = "cudnn_sweep.orchestrator.remote.driver"
END_S = 10.0


def run_inside(request: RemoteRequest, console: Console) -> Heard:
    """Until the driver ends. Raises UnfinishedError where that is early, SpecError where nothing was started."""
    where = Location(request.results)
    if not where.is_url:
        request = replace(request, results=str(where.folder.absolute()))
    with tempfile.TemporaryDirectory(prefix="sweep-inside-") as folder:
        work = Path(folder)
        write_request(request, work)
        take_own_code(request, work)
        follower = Follower(request.results, console, copies=False)
        try:
            with _driver(work) as driver:
                assert driver.stdout is not None
                for line in driver.stdout:
                    follower.take(line.rstrip("\n"))
        finally:
            follower.close()
    return follower.heard(f"the sweep's driver ended early, exit code {driver.returncode}")


@contextmanager
def _driver(work: Path) -> Iterator[subprocess.Popen[str]]:
    """In a process group of its own, which ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", DRIVER],
        cwd=work,
        env={**os.environ, **VARIABLES},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
        process.wait()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if process.stdout is not None:
            process.stdout.close()
