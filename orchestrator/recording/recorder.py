"""Stores the records of a launch, and counts its progress."""

import asyncio
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from cudnn_sweep.analysis.engine.settings import config_name, texts_of
from cudnn_sweep.analysis.errors import StoreError
from cudnn_sweep.analysis.store.schema import RunRecord, settings
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.errors import OrchestratorError
from cudnn_sweep.orchestrator.locks.private_folder import private_folder
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.workloads.warnings import OF_THE_CODE, WarningName

TIMES = 2  # failures of each config before its cell is given up
RAISED = re.compile(
    r"(?P<type>\w+(?:\.\w+)*): .*\((?P<place>\S+:\d+ in [^)]+)\)(?:;.*)?", re.DOTALL
)
SLOTS_UP_S = 180.0  # longest wait for all slots to start
MAX_LOST = 3  # retries of a trial whose worker died


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    trial_id: str
    status: str
    message: str


@dataclass(kw_only=True, slots=True)
class Progress:
    statuses: dict[str, int] = field(default_factory=dict)
    """Number of trials recorded in this launch, by status."""
    slots: dict[str, str] = field(default_factory=dict)
    """Trial that each slot is running, by slot name."""
    failures: list[Failure] = field(default_factory=list)
    warnings: list[WarningName] = field(default_factory=list)
    """Distinct warnings about the timed code."""
    repeated: int = 0
    """Number of records that were dropped because their trial already had one."""
    lost: int = 0
    """Number of attempts that left no record because their worker died."""
    held: int = 0
    """Number of records that could not be written yet."""
    kept_in: dict[str, int] = field(default_factory=dict)
    """Number of records that were saved in another folder, by folder."""
    reasons: list[str] = field(default_factory=list)
    """Distinct reasons why workers lost trials."""
    given_up: list[str] = field(default_factory=list)
    """Trials whose worker died too often."""
    hopeless: dict[str, str] = field(default_factory=dict)
    """Error message of each cell that was given up, by cell_id."""
    standings: str | None = None
    """Text on the number of decided cells, or None before the first interim analysis."""
    stopped: str | None = None
    """Reason why no new trial starts, if there is one."""

    def then(self, later: "Progress") -> "Progress":
        """Return the sum of this progress and that of a later plan of the same launch."""
        return Progress(
            statuses=dict(Counter(self.statuses) + Counter(later.statuses)),
            slots=dict(later.slots),
            failures=self.failures + later.failures,
            warnings=list(dict.fromkeys(self.warnings + later.warnings)),
            repeated=self.repeated + later.repeated,
            lost=self.lost + later.lost,
            held=self.held + later.held,
            kept_in=dict(Counter(self.kept_in) + Counter(later.kept_in)),
            reasons=list(dict.fromkeys(self.reasons + later.reasons)),
            given_up=self.given_up + later.given_up,
            hopeless=self.hopeless | later.hopeless,
            standings=later.standings or self.standings,
            stopped=self.stopped or later.stopped,
        )

    @property
    def recorded(self) -> int:
        return sum(self.statuses.values())


def cause(status: str, message: str) -> tuple[str, str]:
    """Return the status and the shortened message by which failures are grouped."""
    raised = RAISED.fullmatch(message)
    return status, f"{raised['type']} at {raised['place']}" if raised else message


class Hopeless:
    """Finder of cells in which each config raised the same Python exception twice."""

    def __init__(self, configs: int | None) -> None:
        """Give up a cell once `configs` configs have failed, or never if `configs` is None."""
        self._configs = configs
        self._seen: Counter[tuple[str, tuple[str, str], str]] = Counter()
        self._measured: set[str] = set()
        self.cells: dict[str, str] = {}
        """Error message of each cell that was given up, by cell_id."""

    def note(self, record: RunRecord) -> None:
        cell_id, message = record.cell_id, record.message or ""
        if record.status == "ok":
            self._measured.add(cell_id)
        if record.status != "error" or self._configs is None or cell_id in self._measured:
            return
        config = config_name(texts_of({name: getattr(record, name) for name in settings()}))
        error = cause(record.status, message)
        self._seen[cell_id, error, config] += 1
        alike = [key for key, times in self._seen.items() if times >= TIMES]
        if sum(key[:2] == (cell_id, error) for key in alike) >= self._configs:
            self.cells[cell_id] = message


def configs_to_fail(session: Session) -> int:
    """Return how many configs must fail before a cell is given up."""
    return max(len(session.plan.configs()), 2 if session.contrasts else 1)


class Recorder:
    """Ray actor that stores records. Records that arrive during a write are written together."""

    def __init__(
        self, location: str, *, followed: bool = False, configs: int | None = None
    ) -> None:
        """Keep records for `take` if `followed` is true. `configs` is passed to `Hopeless`."""
        self._store = open_store(location)
        self._fresh: list[RunRecord] | None = [] if followed else None
        self._progress = Progress()
        self._attempts = Counter[str]()
        self._recorded: set[str] = set()
        self._held: dict[str, RunRecord] = {}
        self._last: RunRecord | None = None
        self._has_ended = False
        self._failed_slots: list[str] = []
        self._hopeless = Hopeless(configs)
        self._waiting: dict[str, RunRecord] = {}
        self._writing = asyncio.Lock()  # serves waiting calls in their order
        self._compacting = asyncio.Lock()
        self._slots_missing = 0
        self._expects_slots = False
        self._all_slots = asyncio.Event()

    def wanted(self, cells: dict[str, str]) -> set[str]:
        """Return the trials that must still run. `cells` maps each trial_id to a cell_id."""
        wanted = {*cells}.difference(self._recorded, self._given_up())
        return {trial_id for trial_id in wanted if cells[trial_id] not in self._hopeless.cells}

    def _given_up(self) -> list[str]:
        often = [trial_id for trial_id, tries in self._attempts.items() if tries > MAX_LOST]
        return [trial_id for trial_id in often if trial_id not in self._recorded]

    def begin(self, trial_id: str, slot: str) -> int | None:
        """Count an attempt and return its number. Return None if no new trial may start."""
        if self._progress.stopped:
            return None
        self._attempts[trial_id] += 1
        self._progress.slots[slot] = trial_id
        return self._attempts[trial_id]

    async def record(self, record: RunRecord) -> bool:
        """Store a record. If that fails, hold the record, stop new trials and return False."""
        self._progress.slots.pop(record.slot, None)
        if record.trial_id in self._recorded:
            self._progress.repeated += 1  # the first record is kept
        else:
            self._recorded.add(record.trial_id)
            self._waiting[record.trial_id] = record
        async with self._writing:
            if record.trial_id in self._waiting:
                together, self._waiting = list(self._waiting.values()), {}
                self._settle(together, await asyncio.to_thread(self._write, *together))
        if self._store.many() and not self._compacting.locked():
            async with self._compacting:
                await asyncio.to_thread(self._store.compact_many)
        return record.trial_id not in self._held

    def progress(self) -> Progress:
        """Return a copy of the progress."""
        return Progress().then(self._progress)

    def take(self) -> list[RunRecord]:
        taken, self._fresh = self._fresh or [], []
        return taken

    def expect_slots(self, count: int) -> None:
        """Add `count` slots to those that `wait_for_all_slots` waits for."""
        self._slots_missing += count
        self._expects_slots = True
        self._open_if_all_are_up()

    async def wait_for_all_slots(self) -> None:
        """Count a slot as started, and wait until all slots have started."""
        self._slots_missing -= 1
        self._open_if_all_are_up()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._all_slots.wait(), SLOTS_UP_S)
        self._all_slots.set()

    def _open_if_all_are_up(self) -> None:
        if self._expects_slots and self._slots_missing <= 0:
            self._all_slots.set()

    def slot_failed(self, reason: str) -> bool:
        """Note why a slot did not start. Return whether new trials are stopped."""
        self._failed_slots.append(reason)
        if self._failed_slots.count(reason) > 1:
            self._progress.stopped = f"a slot did not start: {reason}"
        return self._progress.stopped is not None

    def stop(self, reason: str) -> None:
        self._progress.stopped = self._progress.stopped or reason

    def trial_lost(self, reason: str) -> None:
        if reason not in self._progress.reasons:
            self._progress.reasons.append(reason)

    def launch_ended(self) -> None:
        """Make `finish` mark the last record as the launch's end."""
        self._has_ended = True

    async def finish(self, sweep_id: str, refuges: list[Path]) -> Progress:
        """Write the held records, compact the sweep's files, and return the final progress.

        Records that cannot be written are saved in one of the folders in `refuges`.
        """
        async with self._writing, self._compacting:
            held, self._held = self._held, {}
            for record in held.values():
                self._settle([record], self._write(record))
            for record in self._held.values():
                self._shelter(record, refuges)
            self._progress.held = len(self._held)
            self._progress.given_up = self._given_up()
            came = len(self._recorded) + self._progress.repeated
            self._progress.lost = self._attempts.total() - came
            if not self._held:
                self._mark_end()
                self._store.try_to_compact(sweep_id)
            return self.progress()

    def _mark_end(self) -> None:
        if self._last is None or not self._has_ended or self._progress.stopped:
            return
        end = replace(self._last, ends_launch=True)
        if self._write(end) is None and self._fresh is not None:
            self._fresh.append(end)

    def _shelter(self, record: RunRecord, refuges: list[Path]) -> None:
        for refuge in refuges:
            try:
                open_store(str(private_folder(refuge))).write(record)
            except (StoreError, OrchestratorError, OSError):
                continue
            self._progress.kept_in[str(refuge)] = self._progress.kept_in.get(str(refuge), 0) + 1
            return

    def _write(self, *records: RunRecord) -> str | None:
        """Write records. Return an error message if that fails."""
        try:
            self._store.write(*records)
        except Exception as error:  # noqa: BLE001  # no error may lose a record
            return str(error) or repr(error)
        return None

    def _settle(self, records: list[RunRecord], fault: str | None) -> None:
        if fault is not None:
            self._progress.stopped = fault
            self._held.update((record.trial_id, record) for record in records)
            self._progress.held = len(self._held)
            return
        for record in records:
            self._count(record)
        last = [self._last] if self._last else []
        self._last = max([*last, *records], key=lambda record: record.ended_at)
        if self._fresh is not None:
            self._fresh.extend(records)

    def _count(self, record: RunRecord) -> None:
        self._hopeless.note(record)
        self._progress.hopeless = dict(self._hopeless.cells)
        statuses, status = self._progress.statuses, record.status
        statuses[status] = statuses.get(status, 0) + 1
        warned = [name for name in OF_THE_CODE if name in (record.warnings or ())]
        self._progress.warnings = list(dict.fromkeys([*self._progress.warnings, *warned]))
        if status not in ("ok", "raced_out"):
            message = record.message or ""
            failure = Failure(trial_id=record.trial_id, status=status, message=message)
            self._progress.failures.append(failure)
