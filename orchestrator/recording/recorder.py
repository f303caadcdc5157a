"""The recorder: makes each trial durable before Tune hears of it, and knows how far the launch is.

One in a launch, on the launching node.
"""

import asyncio
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from cudnn_sweep.analysis.asking.settings import config_name, texts_of
from cudnn_sweep.analysis.errors import StoreError
from cudnn_sweep.analysis.storing.schema import RunRecord, settings
from cudnn_sweep.analysis.storing.store import open_store
from cudnn_sweep.orchestrator.errors import OrchestratorError
from cudnn_sweep.orchestrator.locks.private_folder import private_folder
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.workloads.warnings import OF_THE_CODE, WarningName

TIMES = 2  # of each config: once may be a matter of the shapes that were drawn
RAISED = re.compile(
    r"(?P<type>\w+(?:\.\w+)*): .*\((?P<place>\S+:\d+ in [^)]+)\)(?:;.*)?", re.DOTALL
)
SLOTS_UP_S = 180.0  # a slot that does not come up must not hold the others for ever
MAX_LOST = 3  # a trial that takes its worker along so often again is left for the next launch


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    trial_id: str
    status: str
    message: str


@dataclass(kw_only=True, slots=True)
class Progress:
    statuses: dict[str, int] = field(default_factory=dict)
    """Trials recorded in this launch, by status."""
    slots: dict[str, str] = field(default_factory=dict)
    """The trial that each began last."""
    failures: list[Failure] = field(default_factory=list)
    warnings: list[WarningName] = field(default_factory=list)
    """What is wrong with what is timed, each once."""
    repeated: int = 0
    """Records that came for a trial that had one: the first counts."""
    lost: int = 0
    """Tries that ended without a record, with their worker."""
    held: int = 0
    """Records that could not be written yet."""
    kept_in: dict[str, int] = field(default_factory=dict)
    """Where held records were saved instead, and how many in each folder."""
    reasons: list[str] = field(default_factory=list)
    """Why workers gave up trials, each once."""
    given_up: list[str] = field(default_factory=list)
    """Trials that took their worker along too often."""
    hopeless: dict[str, str] = field(default_factory=dict)
    """Cells of which no further trial is run, by cell_id, and what each of their configs raised."""
    standings: str | None = None
    """How many cells are decided, in words, where each gets its blocks until it is."""
    stopped: str | None = None
    """Why no new trial starts."""

    def then(self, later: "Progress") -> "Progress":
        """Both together, of a launch that ran one plan after another."""
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
    """What trials that failed alike have in common: an exception's type and place, else the whole message."""
    raised = RAISED.fullmatch(message)
    return status, f"{raised['type']} at {raised['place']}" if raised else message


class Hopeless:
    """Cells that cannot run: every config raises the same Python exception, twice. Out of memory, a crash or a hang
    is a result, of which each trial counts.
    """

    def __init__(self, configs: int | None) -> None:
        """`configs`: how many a cell has; None: no cell is given up."""
        self._configs = configs
        self._seen: Counter[tuple[str, tuple[str, str], str]] = Counter()
        self._measured: set[str] = set()
        self.cells: dict[str, str] = {}
        """The cells that are given up, by cell_id, each with its message."""

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
    """How many configs must raise it before a cell is given up: where there are two to compare, two."""
    return max(len(session.plan.configs()), 2 if session.contrasts else 1)


class Recorder:
    """Records that come while others are written are written together, next: a file takes as long to become durable
    whether it has one row or thirty. Tune's host runs it as a Ray actor, whose methods all run in one event loop:
    only there is what it knows changed.
    """

    def __init__(
        self, location: str, *, followed: bool = False, configs: int | None = None
    ) -> None:
        """`followed`: somebody takes copies of the records as they come. `configs`: so many of a cell must
        raise the same before it is given up.
        """
        self._store = open_store(location)
        self._fresh: list[RunRecord] | None = [] if followed else None
        self._progress = Progress()
        self._attempts: dict[str, int] = {}
        self._recorded: set[str] = set()
        self._held: dict[str, RunRecord] = {}
        self._last: RunRecord | None = None
        self._has_ended = False
        self._failed_slots: list[str] = []
        self._hopeless = Hopeless(configs)
        self._waiting: dict[str, RunRecord] = {}
        self._writing = asyncio.Lock()  # whoever waits longest is next
        self._compacting = asyncio.Lock()
        self._slots_missing = 0
        self._all_slots = asyncio.Event()

    def wanted(self, trial_ids: list[str]) -> set[str]:
        """Which of these trials are neither recorded in this launch nor given up."""
        return {
            trial_id
            for trial_id in trial_ids
            if trial_id not in self._recorded and self._attempts.get(trial_id, 0) <= MAX_LOST
        }

    def hopeless_cells(self) -> set[str]:
        """The cells that are given up: their other trials are not run."""
        return set(self._hopeless.cells)

    def begin(self, trial_id: str, slot: str) -> int | None:
        """The number of this attempt; None where no trial may start any more."""
        if self._progress.stopped:
            return None
        attempt = self._attempts.get(trial_id, 0) + 1
        self._attempts[trial_id] = attempt
        self._progress.slots[slot] = trial_id
        return attempt

    async def record(self, record: RunRecord) -> bool:
        """Make a record durable. False: it could not be, is held, and no further trial may start."""
        if self._is_first(record):
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
        """As it is now: a copy, since Ray sends it while the recorder goes on."""
        return Progress().then(self._progress)

    def take(self) -> list[RunRecord]:
        """The records that became durable since the last call."""
        taken, self._fresh = self._fresh or [], []
        return taken

    def expect_slots(self, count: int) -> None:
        """So many slots start with a block; the others follow when a block that waits may run."""
        self._slots_missing = count

    async def wait_for_all_slots(self) -> None:
        """A slot is up. No first block is to be timed while other slots beside it import torch."""
        self._slots_missing -= 1
        if self._slots_missing <= 0:
            self._all_slots.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._all_slots.wait(), SLOTS_UP_S)
        self._all_slots.set()

    def slot_failed(self, reason: str) -> bool:
        """A slot did not come up. The second time for one reason no further trial starts: True."""
        self._failed_slots.append(reason)
        if self._failed_slots.count(reason) > 1:
            self._progress.stopped = f"a slot does not come up: {reason}"
        return self._progress.stopped is not None

    def stop(self, reason: str) -> None:
        self._progress.stopped = self._progress.stopped or reason

    def trial_lost(self, reason: str) -> None:
        """A worker gives up a trial; it runs again, elsewhere or with a new fork server."""
        if reason not in self._progress.reasons:
            self._progress.reasons.append(reason)

    def launch_ended(self) -> None:
        """No further trial comes: `finish` stores the last record again, with that mark."""
        self._has_ended = True

    async def finish(self, sweep_id: str, refuges: list[Path]) -> Progress:
        """Write what is held, compact, and say how it ended.

        What still cannot be written goes into the first of the folders `refuges` that takes it, laid
        out as the results are.
        """
        async with self._writing, self._compacting:
            held, self._held = self._held, {}
            for record in held.values():
                self._settle([record], self._write(record))
            for record in self._held.values():
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
                self._mark_end()
                self._store.try_to_compact(sweep_id)
            return self.progress()

    def _mark_end(self) -> None:
        """Whoever reads the results elsewhere sees no lock, and a launch that was killed marks nothing."""
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

    def _is_first(self, record: RunRecord) -> bool:
        """Whether it is its trial's first record; a later one is only counted."""
        self._progress.slots.pop(record.slot, None)
        if record.trial_id in self._recorded:
            self._progress.repeated += 1
            return False
        self._recorded.add(record.trial_id)
        return True

    def _write(self, *records: RunRecord) -> str | None:
        """The error that kept records from being durable, or None. Other calls may run meanwhile."""
        try:
            self._store.write(*records)
        except Exception as error:  # noqa: BLE001  # whatever it is, no record must be lost
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
        known = [self._last] if self._last else []
        self._last = max([*known, *records], key=lambda record: record.ended_at)
        if self._fresh is not None:
            self._fresh.extend(records)

    def _count(self, record: RunRecord) -> None:
        self._hopeless.note(record)
        self._progress.hopeless = dict(self._hopeless.cells)
        statuses = self._progress.statuses
        statuses[record.status] = statuses.get(record.status, 0) + 1
        warned = [name for name in OF_THE_CODE if name in (record.warnings or ())]
        self._progress.warnings = list(dict.fromkeys([*self._progress.warnings, *warned]))
        if record.status != "ok":
            failure = Failure(
                trial_id=record.trial_id, status=record.status, message=record.message or ""
            )
            self._progress.failures.append(failure)
