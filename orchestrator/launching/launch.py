"""A launch: read what is asked, find the place that its launch file means, and run there."""

from dataclasses import replace
from pathlib import Path
from time import monotonic

from rich.console import Console

from cudnn_sweep.cluster.launch_file import LaunchFile, no_launch_file, read_launch_file
from cudnn_sweep.orchestrator.launching.destinations import destination_of
from cudnn_sweep.orchestrator.planning.asked_file import LAUNCH_FILE
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.request import request_of
from cudnn_sweep.orchestrator.planning.spec import SweepSpec


def launch(options: LaunchOptions, console: Console) -> int:
    """Returns the exit code: 0 every trial is recorded, 1 not so, 4 a cell has no trial that ended well.

    Raises one of the folders' errors where nothing can start.
    """
    file = launch_file(options.file)
    request = replace(request_of(file, options), launched_at=monotonic())
    destination = destination_of(file)
    if options.dry_run:
        return destination.show(request, console)
    return destination.launch(request, console)


def launch_file(file: Path | None) -> LaunchFile[SweepSpec]:
    if file is None:
        return no_launch_file(LAUNCH_FILE, SweepSpec)
    return read_launch_file(file, SweepSpec)
