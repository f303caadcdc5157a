"""A block on its slot: its processes live side by side and take turns, or run one after another."""

import random
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from cudnn_sweep.analysis.storing.schema import RunRecord
from cudnn_sweep.orchestrator.errors import ServerError
from cudnn_sweep.orchestrator.planning.plan import Trial
from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.process.protocol import Outcome
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.measuring.sampling import LEAST_S, MIN_SAMPLES, paired_error
from cudnn_sweep.workloads.measuring.turns import Said, Stage, Turn

if TYPE_CHECKING:
    from cudnn_sweep.orchestrator.slots.slot import ForkedSlot

PLAIN = "plain"  # of the states some let nobody be beside them
NO_OTHER = "no other of its block"
MEMORY = "memory"
LOST = "lost before"
LOSSES = (
    2  # of a trial with its worker: whether it or another of its block is the cause shows alone
)
ONE_CPU = 1.5  # kept busy by a loop: up to this it is one, by turns of its threads
CROWDED = 0.5  # of the device's memory: where less is free another may have to drop plans, or fail

BeginTrial = Callable[[Trial], int | None]
"""The number of a trial's attempt, which starts; None where no further one is to."""


class Member(Protocol):
    pid: int

    def take(self, turn: Turn, /) -> Said | None:
        """Have it take a turn; None where its process has ended."""


class Rounds:
    """Each round every member has a turn, in an order drawn anew. Who ends is left out from then on."""

    def __init__(
        self, members: Sequence[Member], spec: MeasureSpec, *, seed: int, cpus: tuple[int, ...] = ()
    ) -> None:
        """`cpus`: where they take their turns; everywhere they may where none is named."""
        self._living = list(members)
        self._spec = spec
        self._order = random.Random(seed)
        self._cpus = cpus

    def run(self) -> None:
        """From the warm-up until each has reported what it measured."""
        spec, others = self._spec, len(self._living) - 1
        self._warm_up("warm_up", self._living)
        # One warm-up is enough for all: what the others would take is theirs to be timed in.
        spared_s = others * spec.warmup_s
        stopped = self._time("wall", self._living, spec.steady_budget_s, spared_s)
        said = self._round("capture", self._living, stopped=stopped)
        captured = [member for member, heard in said.items() if heard.captured]
        self._warm_up("device_warm_up", captured)
        stopped = self._time("device", captured, spec.device_budget_s)
        self._round("report", self._living, stopped=stopped)

    def _warm_up(self, stage: Stage, members: list[Member]) -> None:
        """All share the device, and its clock: what warms one warms the others."""
        spec = self._spec
        limit_s = max(spec.warmup_s, spec.warmup_limit_s) * len(members)
        began = monotonic()
        while said := self._round(stage, members):
            elapsed_s = monotonic() - began
            settled = all(heard.settled for heard in said.values())
            if (elapsed_s >= spec.warmup_s and settled) or elapsed_s >= limit_s:
                return
            if spec.warmup_s == 0:
                return

    def _time(
        self, stage: Stage, members: list[Member], budget_s: float, spared_s: float = 0.0
    ) -> str | None:
        """Why it stopped; None where nobody was left. `budget_s` is each one's."""
        times: dict[Member, list[float]] = {member: [] for member in members}
        began, number = monotonic(), 0
        while said := self._round(stage, members, number=number):
            number += 1
            for member, heard in said.items():
                assert heard.ms is not None
                times[member].append(heard.ms)
            elapsed_s = monotonic() - began
            if elapsed_s >= budget_s * len(said) + spared_s:
                return "budget"
            enough = number >= MIN_SAMPLES and elapsed_s >= LEAST_S * len(said)
            if enough and paired_error([times[each] for each in said]) <= self._spec.steady_error:
                return "precision"
        return None

    def _round(
        self, stage: Stage, members: list[Member], *, number: int = 0, stopped: str | None = None
    ) -> dict[Member, Said]:
        living = [member for member in members if member in self._living]
        said: dict[Member, Said] = {}
        for member in self._order.sample(living, len(living)):
            heard = member.take(
                Turn(
                    stage=stage,
                    round=number,
                    stopped=stopped,
                    beside=tuple(other.pid for other in self._living if other is not member),
                    cpus=self._cpus,
                )
            )
            if heard is None:
                self._living.remove(member)
            else:
                said[member] = heard
        return {member: said[member] for member in living if member in said}


@dataclass(eq=False, kw_only=True, slots=True)
class Running:
    trial: Trial
    attempt: int
    server: ForkServer
    number: int
    """The process's, of its server."""
    follows: bool
    """No other process ran on this server since the previous trial."""
    new_cache: bool
    """Whether it found its compute cache empty."""
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    pid: int = 0
    overlapped_s: float = 0.0
    """How much of its one-time costs it paid while others of its block paid theirs."""
    busy_cpus: float = 0.0
    cpus: tuple[int, ...] = ()
    """CPUs that it took its turns on; empty: all that it might use."""
    outcome: Outcome | None = None

    def listen(self) -> Said | None:
        """What it says when it passes the baton back; None where it has ended."""
        return self._note(self.server.hear(self.number))

    def take(self, turn: Turn) -> Said | None:
        self.server.pass_on(self.number, turn)
        return self.listen()

    def finish(self, turn: Turn | None = None) -> Outcome:
        said = self.take(turn) if turn else self.listen()
        assert said is None and self.outcome is not None, said
        return self.outcome

    def kill(self) -> None:
        self.server.end(self.number)

    def _note(self, heard: Said | Outcome) -> Said | None:
        if isinstance(heard, Said):
            self.pid = heard.pid
            return heard
        self.outcome = heard
        return None


class Block:
    def __init__(self, slot: "ForkedSlot", trials: Sequence[Trial], begin: BeginTrial) -> None:
        self._slot = slot
        self._todo = list(trials)
        self._begin_trial = begin
        self._attempts: dict[str, int] = {}
        self._newest: Running | None = None

    def measure(self) -> Iterator[RunRecord]:
        """Raises ServerError if a server dies, unless under a trial that runs alone after losses: that is its result."""
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
        reason: str | None = None if self._slot.measuring.in_turns else "as asked"
        if reason is None and len(self._todo) == 1:
            reason = NO_OTHER
        if reason is None:
            reason = yield from self._side_by_side()
        while self._todo and (running := self._start(takes_turns=False)):
            running.finish()
            yield self._slot.record(running, alone_reason=reason)

    def _start(self, *, takes_turns: bool, beside: bool = False) -> Running | None:
        """The next trial's process, begun; None where no further one is to start."""
        trial = self._todo.pop(0)
        if trial.trial_id not in self._attempts:  # one that is measured again is no new attempt
            attempt = self._begin_trial(trial)
            if attempt is None:
                self._todo.clear()
                return None
            self._attempts[trial.trial_id] = attempt
        attempt = self._attempts[trial.trial_id]
        self._newest = self._slot.start(trial, attempt, takes_turns=takes_turns, beside=beside)
        return self._newest

    def _side_by_side(self) -> Generator[RunRecord, None, str | None]:
        """Returns why those that are left, if any, are to run alone."""
        members: list[Running] = []
        reason: str | None = None
        while reason is None and (ready := self._get_ready(beside=bool(members))):
            while ready and reason is None:
                reason = yield from self._meet(ready.pop(0), members, ready)
        if reason is None and len(members) > 1:
            reason = yield from self._in_turns(members)
        elif members:
            reason = reason or NO_OTHER
            yield from self._finish(members, "alone", reason)
        return reason

    def _get_ready(self, *, beside: bool) -> list[Running]:
        """The next processes, whose one-time costs are paid, or that ended before."""
        ready: list[Running] = []
        together = self._slot.measuring.start_together
        while self._todo and (not ready or (together and _may_start_beside(ready[-1]))):
            running = self._start(takes_turns=True, beside=beside or bool(ready))
            if running is None:
                break
            ready.append(running)
        longest_s = 0.0
        for running in ready:
            if said := running.listen():
                running.overlapped_s = min(longest_s, said.one_time_s)
                longest_s = max(longest_s, said.one_time_s)
        return ready

    def _meet(
        self, running: Running, members: list[Running], others: list[Running]
    ) -> Generator[RunRecord, None, str | None]:
        """Have it meet its shapes, and join the members. `others` are ready, too, and go where it, or a
        member, is to be alone; why, is returned.
        """
        said = None if running.outcome else running.take(Turn(stage="meet"))
        if said is not None:
            members.append(running)
            running.busy_cpus = said.busy_cpus
            reason = said.alone or _crowded(said) or _lost(running)
            if reason is not None:
                self._again(others)
            return reason
        if (members or others) and _lacked_memory(running):
            self._again([running, *others])
            return MEMORY
        yield self._slot.record(running)
        return None

    def _in_turns(self, members: list[Running]) -> Generator[RunRecord, None, str]:
        """Returns why those of them that are to be measured again are."""
        seed = members[0].trial.seed
        confined = all(member.busy_cpus <= ONE_CPU for member in members)
        cpus = self._slot.turn_cpus() if confined else ()
        for member in members:
            member.cpus = cpus
        Rounds(members, self._slot.measuring, seed=seed, cpus=cpus).run()
        ended = [member for member in members if member.outcome]
        living = [member for member in members if not member.outcome]
        if any(_lacked_memory(member) for member in ended):
            self._again(members)
            return MEMORY
        for member in ended:
            yield self._slot.record(member, in_turns=True)
        yield from self._finish(living, "rest", None)
        return MEMORY

    def _finish(
        self, members: list[Running], stage: Stage, reason: str | None
    ) -> Iterator[RunRecord]:
        """What is left of each, one at a time; processes that log follow when all have ended."""
        in_turns = reason is None
        held: list[Running] = []
        holds = any(self._slot.logs(member.trial) for member in members)
        living = list(members)
        while living:
            member = living.pop(0)
            member.finish(Turn(stage=stage, beside=tuple(other.pid for other in living)))
            if living and _lacked_memory(member):
                self._again([*held, member, *living])
                return
            if holds:
                held.append(member)
            else:
                yield self._slot.record(member, in_turns=in_turns, alone_reason=reason)
        records = [
            self._slot.record(member, in_turns=in_turns, alone_reason=reason) for member in held
        ]
        if _dropped(records):
            self._again(held)
        else:
            yield from records

    def _again(self, members: list[Running]) -> None:
        """They are to be measured again, and alone; those that live end."""
        for member in members:
            if not member.outcome:
                member.kill()
            self._slot.forget(member)
        self._todo[:0] = [member.trial for member in members]


def _may_start_beside(running: Running) -> bool:
    """Whether another may get ready beside it: not where it is known already to run alone."""
    cell = running.trial.cell
    return cell.may_end() and cell.state == PLAIN and _lost(running) is None


def _crowded(said: Said) -> str | None:
    if said.free_bytes is None or said.total_bytes is None:
        return None
    return MEMORY if said.free_bytes < CROWDED * said.total_bytes else None


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
    """Whether it may have failed for what the others of its block hold."""
    outcome = running.outcome
    if outcome is None:
        return False
    measured = outcome.reply and outcome.reply.measured
    checks_error = (measured and measured.checks_error) or ""
    return outcome.status == "out_of_memory" or checks_error.startswith("OutOfMemoryError")


def _dropped(records: Sequence[RunRecord]) -> bool:
    """Whether a search may have dropped a plan for what the others of its block held: the log knows of a
    workspace that was too large for a process, and not for the one that had most memory.
    """
    free = [record.cold_free_bytes for record in records if record.cold_free_bytes is not None]
    wanted = [record.logged_largest_workspace_bytes or 0 for record in records]
    return bool(free) and any(min(free) < workspace <= max(free) for workspace in wanted)
