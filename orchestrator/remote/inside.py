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

from cudnn_sweep.analysis.storing.location import Location
from cudnn_sweep.cluster.keys import NightlyKeys
from cudnn_sweep.cluster.launch_file import LaunchFile
from cudnn_sweep.orchestrator.planning.request import SweepRequest
from cudnn_sweep.orchestrator.planning.spec import NightName, SweepSpec
from cudnn_sweep.orchestrator.remote.follow import Follower, JobReport
from cudnn_sweep.orchestrator.remote.plans import (
    refuse_json,
    refuse_to_try_cells,
    show_plans,
)
from cudnn_sweep.orchestrator.remote.request import JobRequest, SurveyJob, write_request
from cudnn_sweep.orchestrator.remote.staging import VARIABLES, take_own_code
from cudnn_sweep.orchestrator.running.place import NightPlace
from cudnn_sweep.orchestrator.running.run_sweep import DONE

DRIVER = "cudnn_sweep.orchestrator.remote.driver"
END_S = 10.0


class Inside:
    """A Destination."""

    where = "the cluster that this machine is a node of"

    def __init__(self, file: LaunchFile[SweepSpec]) -> None:
        self._allow_unauthenticated = file.sweep.allow_unauthenticated

    def launch(self, request: SweepRequest, console: Console) -> int:
        refuse_json(request)
        return run_inside(self._job_request(request), console).exit_code

    def show(self, request: SweepRequest, console: Console) -> int:
        refuse_to_try_cells(request)
        survey = replace(self._job_request(request), job=SurveyJob())
        show_plans(request, self.where, lambda: run_inside(survey, console), console)
        return DONE

    def for_night(
        self, request: SweepRequest, name: NightName, nightly: NightlyKeys, console: Console
    ) -> NightPlace:
        from cudnn_sweep.orchestrator.remote.night_place import NightOnCluster

        return NightOnCluster(self._job_request(request), nightly.last_good, console)

    def check_python(self, last_good: str) -> None:
        """Its nodes are asked, when they are looked at."""

    def _job_request(self, request: SweepRequest) -> JobRequest:
        return JobRequest(
            sweep=request, inside=True, allow_unauthenticated=self._allow_unauthenticated
        )


def run_inside(request: JobRequest, console: Console) -> JobReport:
    """Until the driver ends. Raises UnfinishedError where that is early, SpecError where nothing was started."""
    where = Location(request.sweep.results)
    if not where.is_url:
        sweep = replace(request.sweep, results=str(where.folder.absolute()))
        request = replace(request, sweep=sweep)
    with tempfile.TemporaryDirectory(prefix="sweep-inside-") as folder:
        work = Path(folder)
        write_request(request, work)
        take_own_code(request.sweep, work)
        follower = Follower(request.sweep.results, console, copies=False)
        try:
            with _driver(work) as driver:
                assert driver.stdout is not None
                for line in driver.stdout:
                    follower.take(line.rstrip("\n"))
        finally:
            follower.close()
    return follower.report(f"the sweep's driver ended early, exit code {driver.returncode}")


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
