"""Executor: where a session's trials run: Ray on this machine, the fake of nightly/fake_machine.py, or for a
night a cluster.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from rich.console import Console

from cudnn_sweep.analysis.store import Store
from cudnn_sweep.orchestrator.doctor.check import Check
from cudnn_sweep.orchestrator.progress import Progress
from cudnn_sweep.orchestrator.session import Session
from cudnn_sweep.workloads.environment import Environment
from cudnn_sweep.workloads.suite import SuiteSpec
from cudnn_sweep.workloads.survey import Survey


class RunSession(Protocol):
    def __call__(self, session: Session, budget_s: float | None, /) -> Progress:
        """Run the session's trials; no block starts after `budget_s`."""


class Executor(Protocol):
    def come_back(self) -> None:
        """Wait for what an earlier launch left running, and take what it recorded. Raises SweepBusyError."""

    def look(self, suite: SuiteSpec) -> Survey:
        """Raises SpecError where the suite cannot run here."""

    def last_good(self, python: Path) -> Environment:
        """That software, whose trials can run beside the current one's. Raises ServerError."""

    def modules(self, suite: SuiteSpec, own: Iterable[str]) -> tuple[str, ...]:
        """Which of the suite's and of the user's own the fork server imports once. Raises SpecError."""

    def checks(self, results: str) -> Iterator[Check]:
        """What a doctor finds in a few seconds."""

    def opened(
        self, store: Store, machine: Survey, console: Console
    ) -> AbstractContextManager[RunSession]:
        """Raises SweepBusyError where another launch measures on it."""
