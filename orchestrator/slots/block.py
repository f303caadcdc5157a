"""Runs the trials of a block on a slot. Their processes take turns or run one after another."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.orchestrator.errors import ServerError
from cudnn_sweep.orchestrator.planning.plan import Trial
from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.process.protocol import Outcome
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.measuring.sampling import LEAST_S, MIN_SAMPLES, paired_error
from cudnn_sweep.workloads.measuring.turns import Said, Stage, Turn

if TYPE_CHECKING:
    from cudnn_sweep.orchestrator.slots.slot import ForkedSlot

PLAIN = "plain"  # name of the usual state
NO_OTHER = "no other of its block"
MEMORY = "memory"
LOST = "lost before"
LOSSES = 2  # a trial runs alone after it was lost this many times
ONE_CPU = 1.5  # a loop that uses at most this many CPUs may run on one CPU
CROWDED = 0.5  # share of the device's memory that must be free for other processes

BeginTrial = Callable[[Trial], int | None]
"""Function that returns the number of a trial's new attempt, or None if no trial may start."""


class Member(Protocol):
    pid: int

    def take(self, turn: Turn, /) -> Said | None:
        """Let the member take a turn. Return its report, or None if its process has ended."""


class Rounds:
    """Times members in rounds. In each round, every member takes one turn, in random order."""

    def __init__(
        self, members: Sequence[Member], spec: MeasureSpec, *, seed: int, cpus: tuple[int, ...] = ()
    ) -> None:
        """Turns run on the CPUs in `cpus`, or on any CPU if `cpus` is empty."""
        self._living = list(members)
        self._spec = spec
        self._order = random.Random(seed)
        self._cpus = cpus

    def run(self) -> None:
        spec = self._spec
        # The members share one warm-up. The time that this saves is added to the timed budget.
        spared_s = (len(self._living) - 1) * spec.warmup_s
        self._warm_up("warm_up", self._living)
        stopped = self._time("wall", self._living, spec.steady_budget_s, spared_s)
        reports = self._round("capture", self._living, stopped=stopped)
        captured = [member for member, report in reports.items() if report.captured]
        self._warm_up("device_warm_up", captured)
        stopped = self._time("device", captured, spec.device_budget_s)
        self._round("report", self._living, stopped=stopped)

    def _warm_up(self, stage: Stage, members: list[Member]) -> None:
        spec = self._spec
        limit_s = max(spec.warmup_s, spec.warmup_limit_s) * len(members)
        began = monotonic()
        while reports := self._round(stage, members):
            elapsed_s = monotonic() - began
            settled = all(report.settled for report in reports.values())
            is_warm = elapsed_s >= spec.warmup_s and settled
            if is_warm or elapsed_s >= limit_s or spec.warmup_s == 0:
                return

    def _time(
        self, stage: Stage, members: list[Member], budget_s: float, spared_s: float = 0.0
    ) -> str | None:
        """Measure rounds until the times are precise enough or the budget is spent.

        Return "precision" or "budget", or None if all members ended.
        """
        times: dict[Member, list[float]] = {member: [] for member in members}
        began, number = monotonic(), 0
        while reports := self._round(stage, members, number=number):
            number += 1
            for member, report in reports.items():
                assert report.ms is not None
                times[member].append(report.ms)
            elapsed_s, living = monotonic() - began, len(reports)
            if elapsed_s >= budget_s * living + spared_s:
                return "budget"
            enough = number >= MIN_SAMPLES and elapsed_s >= LEAST_S * living
            if enough and paired_error([times[m] for m in reports]) <= self._spec.steady_error:
                return "precision"
        return None

    def _round(
        self, stage: Stage, members: list[Member], *, number: int = 0, stopped: str | None = None
    ) -> dict[Member, Said]:
        living = [member for member in members if member in self._living]
        reports: dict[Member, Said] = {}
        for member in self._order.sample(living, len(living)):
            beside = tuple(each.pid for each in self._living if each is not member)
            report = member.take(
                Turn(stage=stage, round=number, stopped=stopped, beside=beside, cpus=self._cpus)
            )
            if report is None:
                self._living.remove(member)
            else:
                reports[member] = report
        return {member: reports[member] for member in living if member in reports}


@dataclass(eq=False, kw_only=True, slots=True)
class Running:
    trial: Trial
    attempt: int
    server: ForkServer
    number: int  # identifies the process on its server
    follows: bool
    """Whether the slot's previous trial ran on the same server and has ended."""
    new_cache: bool
    """Whether the trial found its compute cache empty."""
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    pid: int = 0
    overlapped_s: float = 0.0
    """Seconds in which this process and another one of its block both paid one-time costs."""
    busy_cpus: float = 0.0
    cpus: tuple[int, ...] = ()
    """CPUs on which the process took its turns. If empty, it could use any CPU of its slot."""
    outcome: Outcome | None = None

    def listen(self) -> Said | None:
        """Wait for the process's report and return it. Return None if the process has ended."""
        heard = self.server.hear(self.number)
        if isinstance(heard, Outcome):
            self.outcome = heard
            return None
        self.pid = heard.pid
        return heard

    def take(self, turn: Turn) -> Said | None:
        self.server.pass_on(self.number, turn)
        return self.listen()

    def finish(self, turn: Turn | None = None) -> Outcome:
        report = self.take(turn) if turn else self.listen()
        assert report is None and self.outcome is not None, report
        return self.outcome


class Block:
    def __init__(self, slot: "ForkedSlot", trials: Sequence[Trial], begin: BeginTrial) -> None:
        self._slot = slot
        self._todo = list(trials)
        self._begin_trial = begin
        self._attempts: dict[str, int] = {}
        self._newest: Running | None = None
        self._alone: str | None = None
        """Reason why the remaining trials run alone, or None if they take turns."""

    def measure(self) -> Iterator[RunRecord]:
        """Yield each trial's record. Raises ServerError if a server dies in an early attempt."""
        try:
            yield from self._measure()
        except ServerError as error:
            running, self._newest = self._newest, None
            if running is None or _lost(running) is None:
                raise
            self._slot.renew([running.trial])
            running.outcome = _died_with_its_server(running, error)
            yield self._slot.record(running, alone_reason=LOST)
            yield from self.measure()

    def _measure(self) -> Iterator[RunRecord]:
        self._alone = NO_OTHER if len(self._todo) == 1 else None
        if not self._slot.measuring.in_turns:
            self._alone = "as asked"
        if self._alone is None:
            yield from self._side_by_side()
        while self._todo and (running := self._start(takes_turns=False)):
            running.finish()
            yield self._slot.record(running, alone_reason=self._alone)

    def _start(self, *, takes_turns: bool, beside: bool = False) -> Running | None:
        """Start the next trial's process. Return None if no new trial may start."""
        trial = self._todo.pop(0)
        # measuring a trial again is not a new attempt
        attempt = self._attempts.get(trial.trial_id) or self._begin_trial(trial)
        if attempt is None:
            self._todo.clear()
            return None
        self._attempts[trial.trial_id] = attempt
        self._newest = self._slot.start(trial, attempt, takes_turns=takes_turns, beside=beside)
        return self._newest

    def _side_by_side(self) -> Iterator[RunRecord]:
        # 1. Each process pays its one-time costs and makes its first calls.
        members: list[Running] = []
        while self._alone is None and (ready := self._get_ready(beside=bool(members))):
            while ready and self._alone is None:
                yield from self._meet(ready.pop(0), members, ready)
        # 2. Time the members in turns, unless there is only one or a trial must run alone.
        if self._alone is None and len(members) > 1:
            yield from self._in_turns(members)
            self._alone = MEMORY  # reason if trials are measured again
        elif members:
            self._alone = self._alone or NO_OTHER
            yield from self._finish(members, "alone")

    def _get_ready(self, *, beside: bool) -> list[Running]:
        """Start the next processes, and wait until they have paid their one-time costs or ended."""
        ready: list[Running] = []
        together = self._slot.measuring.start_together
        while self._todo and (not ready or (together and _may_start_beside(ready[-1]))):
            running = self._start(takes_turns=True, beside=beside or bool(ready))
            if running is None:
                break
            ready.append(running)
        longest_s = 0.0
        for running in ready:
            if report := running.listen():
                running.overlapped_s = min(longest_s, report.one_time_s)
                longest_s = max(longest_s, report.one_time_s)
        return ready

    def _meet(
        self, running: Running, members: list[Running], ready: list[Running]
    ) -> Iterator[RunRecord]:
        """Let a process make its first calls, and add it to `members` if it succeeds."""
        report = None if running.outcome else running.take(Turn(stage="meet"))
        if report is not None:
            members.append(running)
            running.busy_cpus = report.busy_cpus
            self._alone = report.alone or _crowded(report) or _lost(running)
            if self._alone is not None:
                self._again(ready)
        elif (members or ready) and _lacked_memory(running):
            self._again([running, *ready])
            self._alone = MEMORY
        else:
            yield self._slot.record(running)

    def _in_turns(self, members: list[Running]) -> Iterator[RunRecord]:
        first = members[0].trial
        has_one_rank = first.cell.rank_count == 1  # several ranks would share the CPUs
        confined = has_one_rank and all(member.busy_cpus <= ONE_CPU for member in members)
        cpus = self._slot.turn_cpus() if confined else ()
        for member in members:
            member.cpus = cpus
        Rounds(members, self._slot.measuring, seed=first.seed, cpus=cpus).run()
        ended = [member for member in members if member.outcome]
        living = [member for member in members if not member.outcome]
        if any(_lacked_memory(member) for member in ended):
            self._again(members)
            return
        for member in ended:
            yield self._slot.record(member, in_turns=True)
        yield from self._finish(living, "rest")

    def _finish(self, members: list[Running], stage: Stage) -> Iterator[RunRecord]:
        """Let the members finish one after another, and yield their records."""
        alone = self._alone
        record = partial(self._slot.record, in_turns=alone is None, alone_reason=alone)
        waits = any(self._slot.logs(member.trial) for member in members)
        for at, member in enumerate(members, 1):
            living = members[at:]
            member.finish(Turn(stage=stage, beside=tuple(each.pid for each in living)))
            if living and _lacked_memory(member):
                self._again(members if waits else [member, *living])
                return
            if not waits:
                yield record(member)
        records = [record(member) for member in members if waits]
        if _dropped(records):
            self._again(members)
        else:
            yield from records

    def _again(self, members: list[Running]) -> None:
        """End the processes, so that their trials are measured again alone."""
        for member in members:
            if not member.outcome:
                member.server.end(member.number)
            self._slot.forget(member)
        self._todo[:0] = [member.trial for member in members]


def _may_start_beside(running: Running) -> bool:
    cell = running.trial.cell
    return cell.may_end() and cell.state == PLAIN and _lost(running) is None


def _crowded(report: Said) -> str | None:
    if report.free_bytes is None or report.total_bytes is None:
        return None
    return MEMORY if report.free_bytes < CROWDED * report.total_bytes else None


def _lost(running: Running) -> str | None:
    return LOST if running.attempt > LOSSES else None


def _died_with_its_server(running: Running, error: ServerError) -> Outcome:
    ended_at = datetime.now(UTC)
    return Outcome(
        status="crash",
        message=f"{error}, while this trial ran alone after {running.attempt - 1} lost attempts",
        started_at=running.started_at,
        ended_at=ended_at,
        process_s=(ended_at - running.started_at).total_seconds(),
    )


def _lacked_memory(running: Running) -> bool:
    outcome = running.outcome
    if outcome is None:
        return False
    measured = outcome.reply and outcome.reply.measured
    checks_error = (measured and measured.checks_error) or ""
    return outcome.status == "out_of_memory" or checks_error.startswith("OutOfMemoryError")


def _dropped(records: Sequence[RunRecord]) -> bool:
    """Return whether a search may have dropped a cuDNN plan because other processes used memory."""
    free = [record.cold_free_bytes for record in records if record.cold_free_bytes is not None]
    wanted = [record.logged_largest_workspace_bytes or 0 for record in records]
    return bool(free) and any(min(free) < workspace <= max(free) for workspace in wanted)
