"""A night on a cluster, as a Ray job on its head: measures over the cluster's nodes, compares, confirms.

Started by `sweep nightly` as remote/driver.py is by a launch. What became of the night is told to whoever follows,
who writes the reports and posts the news.
"""

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime

from rich.console import Console

from cudnn_sweep.analysis.nightly.reports.report import to_json
from cudnn_sweep.orchestrator.locks.sweep_lock import night_lock
from cudnn_sweep.orchestrator.nightly.night import measured_and_compared
from cudnn_sweep.orchestrator.nightly.request import NightRequest
from cudnn_sweep.orchestrator.remote.driver import drive, leave, place_of, results_of
from cudnn_sweep.orchestrator.remote.job import Ended, JobRequest


def run(request: JobRequest, console: Console) -> Ended:
    """Run a night. Its exit code is that of `sweep nightly`."""
    asked = request.night
    assert asked is not None
    began = datetime.now(UTC)
    place = place_of(request, console)
    night = NightRequest(
        options=asked.options,
        keys=asked.keys,
        request=replace(request.sweep, results=results_of(request)),
        name=asked.name,
        host=asked.host,
        place=place,
    )
    # of a driver that is no job the command itself holds it
    lock = night_lock(night.request.results, night.name.launch)
    with nullcontext() if request.inside else lock:
        outcome, _ = measured_and_compared(night, began, console)
        night.diary().write(outcome)
    return Ended(exit_code=outcome.exit_code, outcome=to_json(outcome))


if __name__ == "__main__":
    leave(drive(run))
