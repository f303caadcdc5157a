"""Places where trials run: the GPUs of this machine, nodes of a cluster, a fake that makes numbers up."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeAlias

from rich.console import Console

from cudnn_sweep.analysis.storing.store import Store
from cudnn_sweep.orchestrator.doctor.check import Check
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.workloads.cells.suite import SuiteSpec
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.survey import Survey

RunSession: TypeAlias = Callable[[Session, float | None], Progress]
"""Runs a session's trials; no block starts after so many seconds."""


class Place(Protocol):
    """What a sweep needs of where it runs: see run_sweep.py."""

    def look(self, suite: SuiteSpec) -> Survey:
        """What is there. Raises SpecError where the suite cannot run."""

    def modules(self, suite: SuiteSpec, own: Iterable[str]) -> tuple[str, ...]:
        """Which of the suite's and of the user's own the fork server imports once. Raises SpecError."""

    def announce(self, session: Session, reason: str, console: Console) -> None:
        """Say what runs next, and why: each session is announced before it runs."""

    def opened(
        self, store: Store, machine: Survey, console: Console
    ) -> AbstractContextManager[RunSession]:
        """Raises SweepBusyError where another launch measures on it."""


class NightPlace(Place, Protocol):
    """What a night needs besides: see nightly/night.py."""

    def last_good(self, python: Path) -> Environment:
        """That software, whose trials can run beside the current one's. Raises ServerError."""

    def checks(self, results: str) -> Iterator[Check]:
        """What a doctor finds in a few seconds."""
