"""The recorder: makes each trial durable before Tune hears of it, and knows how far the launch is.

One in a launch, on the launching node; Tune's host runs it as a Ray actor.
"""

from datetime import UTC, datetime
from pathlib import Path

from cudnn_sweep.analysis.collector import Collector
from cudnn_sweep.analysis.errors import StoreError
from cudnn_sweep.analysis.schema import RunRecord
from cudnn_sweep.analysis.store import open_store
from cudnn_sweep.orchestrator.progress import Failure, Progress, SlotState

MAX_LOST = 3  # a trial that takes its worker along so often again is left for the next launch


class Recorder:
    def __init__(self, location: str, *, followed: bool = False) -> None:
        """`followed`: somebody takes copies of the records as they come."""
        self._collector = Collector(open_store(location))
        self._fresh: list[RunRecord] | None = [] if followed else None
        self._progress = Progress()
        self._attempts: dict[str, int] = {}
        self._recorded: set[str] = set()
        self._held: list[RunRecord] = []
        self._failed_slots: list[str] = []

    def wanted(self, trial_ids: list[str]) -> set[str]:
        """Of these, the trials that are neither recorded in this launch nor given up."""
        return {
            trial_id
            for trial_id in trial_ids
            if trial_id not in self._recorded and self._attempts.get(trial_id, 0) <= MAX_LOST
        }

    def begin(self, trial_id: str, position: int, slot: str) -> int | None:
        """The number of this attempt; None where no trial may start any more."""
        if self._progress.stopped:
            return None
        attempt = self._attempts.get(trial_id, 0) + 1
        self._attempts[trial_id] = attempt
        self._progress.slots[slot] = SlotState(
            position=position, attempt=attempt, began_at=datetime.now(UTC)
        )
        return attempt

    def record(self, record: RunRecord) -> bool:
        """Make a record durable. False: it could not be, is held, and no further trial may start."""
        self._progress.slots.pop(record.slot, None)
        if record.trial_id in self._recorded:
            self._progress.repeated += 1
            return True
        durable = self._write(record)
        if not durable:
            self._held.append(record)
            self._progress.held = len(self._held)
        self._recorded.add(record.trial_id)
        return durable

    def progress(self) -> Progress:
        return self._progress

    def take(self) -> list[RunRecord]:
        """Those that became durable since the last time."""
        taken, self._fresh = self._fresh or [], []
        return taken

    def slot_failed(self, reason: str) -> bool:
        """A slot did not come up. The second time for one reason no further trial starts: True."""
        self._failed_slots.append(reason)
        if self._failed_slots.count(reason) > 1:
            self._progress.stopped = f"a slot does not come up: {reason}"
        return self._progress.stopped is not None

    def trial_lost(self, reason: str) -> None:
        """A worker gives up a trial; it runs again, elsewhere or with a new fork server."""
        if reason not in self._progress.reasons:
            self._progress.reasons.append(reason)

    def finish(self, sweep_id: str, refuges: list[Path]) -> Progress:
        """Write what is held, compact, and say how it ended.

        What still cannot be written goes into the first of the folders `refuges` that takes it, laid
        out as the results are.
        """
        held, self._held = self._held, []
        self._held = [record for record in held if not self._write(record)]
        for record in self._held:
            self._shelter(record, refuges)
        self._progress.held = len(self._held)
        self._progress.given_up = [
            trial_id
            for trial_id, attempts in self._attempts.items()
            if attempts > MAX_LOST and trial_id not in self._recorded
        ]
        came = len(self._recorded) + self._progress.repeated
        self._progress.lost = sum(self._attempts.values()) - came
        if not self._held:
            self._collector.compact(sweep_id)
        return self._progress

    def _shelter(self, record: RunRecord, refuges: list[Path]) -> None:
        for refuge in refuges:
            try:
                open_store(str(refuge)).write(record)
            except (StoreError, OSError):
                continue
            self._progress.kept_in[str(refuge)] = self._progress.kept_in.get(str(refuge), 0) + 1
            return

    def _write(self, record: RunRecord) -> bool:
        try:
            self._collector.write(record)
        except Exception as error:  # noqa: BLE001  # whatever it is, the record must not be lost
            self._progress.stopped = str(error)
            return False
        self._count(record)
        if self._fresh is not None:
            self._fresh.append(record)
        return True

    def _count(self, record: RunRecord) -> None:
        statuses = self._progress.statuses
        statuses[record.status] = statuses.get(record.status, 0) + 1
        if record.status != "ok":
            failure = Failure(
                trial_id=record.trial_id, status=record.status, message=record.message or ""
            )
            self._progress.failures.append(failure)
