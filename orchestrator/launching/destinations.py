"""Where a launch goes, as its launch file says: a row a kind. A kind is a file that declares a Destination."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from rich.console import Console

from cudnn_sweep.cluster.launch_file import INSIDE, LaunchFile, no_launch_file, read_launch_file
from cudnn_sweep.cluster.nightly_keys import NightlyKeys
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.night_name import NightName
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.request import SweepRequest, request_of
from cudnn_sweep.orchestrator.planning.spec import LAUNCH_FILE, SweepSpec
from cudnn_sweep.orchestrator.running.place import NightPlace

if TYPE_CHECKING:
    from cudnn_sweep.orchestrator.remote.launch_there import RunningCluster


class Destination(Protocol):
    @property
    def where(self) -> str:
        """In words."""

    def launch(self, request: SweepRequest, console: Console) -> int:
        """Run the sweep, or send it. Returns the exit code."""

    def show(self, request: SweepRequest, console: Console) -> int:
        """Say what `launch` would run; writes nothing. Returns the exit code."""

    def for_night(
        self, request: SweepRequest, name: NightName, nightly: NightlyKeys, console: Console
    ) -> NightPlace:
        """Where that night's trials run, those of its `last_good` software too."""

    def check_python(self, last_good: str) -> None:
        """Raises SpecError where there is no such program; the nodes of a cluster say so themselves, when they
        are looked at.
        """


File = LaunchFile[SweepSpec]


def _here(file: File) -> Destination:
    from cudnn_sweep.orchestrator.launching.launch_here import Here

    if file.sweep.kubernetes is not None:
        raise SpecError(
            f"{file.path}: metadata.sweep.kubernetes: these pods are not on this machine: `--manifest` prints what "
            "kubectl applies; on a node of a Ray cluster give `address: auto`, and here leave the key out"
        )
    return Here()


def _inside(file: File) -> Destination:
    from cudnn_sweep.orchestrator.remote.inside import Inside

    return Inside(file)


def _running(file: File) -> Destination:
    from cudnn_sweep.orchestrator.remote.launch_there import RunningCluster

    return RunningCluster(file)


def _brought_up(file: File) -> Destination:
    from cudnn_sweep.orchestrator.remote.launch_there import BroughtUpCluster

    return BroughtUpCluster(file)


KINDS: list[tuple[Callable[[File], bool], Callable[[File], Destination]]] = [
    (lambda file: file.sweep.address == INSIDE, _inside),
    (lambda file: file.sweep.address is not None, _running),
    (lambda file: "provider" in file.ray_part, _brought_up),
    (lambda file: True, _here),
]
"""Which files mean a kind, and its destination; the first that fits. They are imported when they are meant: this
machine needs no extra `cluster`."""


def destination_of(file: File) -> Destination:
    return next(make(file) for is_meant, make in KINDS if is_meant(file))


def cluster_of(file: File) -> "RunningCluster":
    """The one that jobs are sent to. Raises SpecError for a file that means no such cluster."""
    from cudnn_sweep.orchestrator.remote.launch_there import RunningCluster

    destination = destination_of(file)
    if not isinstance(destination, RunningCluster):
        raise SpecError(
            f"{file.path} names no cluster that jobs are sent to: it means {destination.where}"
        )
    return destination


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
