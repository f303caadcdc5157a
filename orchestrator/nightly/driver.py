"""Runs a night as a Ray job on a cluster. `sweep nightly` submits the job."""

from contextlib import nullcontext
from dataclasses import replace

from rich.console import Console

from cudnn_sweep.analysis.nights.reports.report import to_json
from cudnn_sweep.orchestrator.locks.sweep_lock import night_lock
from cudnn_sweep.orchestrator.nightly.night import measured_and_compared
from cudnn_sweep.orchestrator.nightly.request import NightRequest
from cudnn_sweep.orchestrator.remote.driver import drive, leave, place_of, results_of
from cudnn_sweep.orchestrator.remote.job import Ended, JobRequest


def run(request: JobRequest, console: Console) -> Ended:
    job = request.night
    assert job is not None
    night = NightRequest(
        options=job.options,
        keys=job.keys,
        request=replace(request.sweep, results=results_of(request)),
        name=job.name,
        host=job.host,
        place=place_of(request, console),
    )
    # If `inside` is set, the parent process `sweep nightly` has locked the night.
    lock = night_lock(night.request.results, night.name.launch)
    with nullcontext() if request.inside else lock:
        outcome, _ = measured_and_compared(night, console)
        night.diary().write(outcome)
    return Ended(exit_code=outcome.exit_code, outcome=to_json(outcome))


if __name__ == "__main__":
    leave(drive(run))
