"""The fake beside `ForkedSlot`: its trials sleep, in the actor itself. What is left is what scheduling and
recording cost.
"""

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from time import sleep

from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.orchestrator.planning.plan import Trial
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.orchestrator.process.protocol import Outcome
from cudnn_sweep.orchestrator.recording.record import Attempt, make_record, raced_out
from cudnn_sweep.orchestrator.slots.block import BeginTrial
from cudnn_sweep.workloads.hardware.environment import Environment


class SleepingSlot:
    def __init__(
        self, session: Session, accelerator: str, *, environment: Environment, sleep_s: float
    ) -> None:
        self._session = session
        self._environment = environment
        self._sleep_s = sleep_s
        self.name = f"{environment.host}/{os.getpid()}"  # nodes on one host number their GPUs alike

    def measure(self, trials: Sequence[Trial], begin: BeginTrial) -> Iterator[RunRecord]:
        for trial in trials:
            attempt = begin(trial)
            if attempt is None:
                return
            yield make_record(
                self._session,
                trial,
                self._outcome(),
                self._environment,
                Attempt(slot=self.name, attempt=attempt),
            )

    def leave_out(self, trial: Trial) -> RunRecord:
        return raced_out(self._session, trial, self._environment, self.name, datetime.now(UTC))

    def _outcome(self) -> Outcome:
        began = datetime.now(UTC)
        sleep(self._sleep_s)
        return Outcome(started_at=began, ended_at=datetime.now(UTC), process_s=self._sleep_s)

    def close(self) -> None:
        """There is no server."""
