"""Follows a sweep that runs on a cluster: its display here, copies of its records home, how it ended."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from time import sleep

from rich.console import Console

from cudnn_sweep.analysis.storing.location import Location
from cudnn_sweep.analysis.storing.store import Collector, open_store
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.reach.jobs import ENDED, Jobs
from cudnn_sweep.orchestrator.errors import SpecError, UnfinishedError
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.planning.standing import verdicts_of
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.orchestrator.remote.events import (
    Compared,
    Ended,
    Event,
    Progressed,
    Recorded,
    Started,
    from_line,
)
from cudnn_sweep.orchestrator.showing.display import watch
from cudnn_sweep.orchestrator.showing.say import say

RECONNECT_S = 2.0
TRIES = 30  # in a row without a word before it is given up: the sweep itself goes on


@dataclass(frozen=True, kw_only=True, slots=True)
class JobReport:
    exit_code: int
    outcome: str
    """Of a night, as JSON; else empty."""


class Follower:
    """Takes what the job says, as often as it is said again."""

    def __init__(self, results: str, console: Console, *, copies: bool) -> None:
        """`copies`: that folder here gets them; else the records are in `results`."""
        self._console = console
        self._store = open_store(results)
        self._copies = Collector(self._store) if copies else None
        self._sweeps = MergedSweeps()
        self._kept: set[str] = set()
        self._display = ExitStack()
        self._ended = 0
        self.is_over = False
        """All that the job has to say is said: Ray takes seconds more to end it."""
        self._exit_code: int | None = None
        self._reason: str | None = None
        self._outcome = ""

    def take(self, line: str) -> None:
        event = from_line(line)
        if event is None:
            say(self._console, line)
        else:
            self._take(event)

    def _take(self, event: Event) -> None:
        if isinstance(event, Started):
            self._start(event)
        elif isinstance(event, Progressed):
            self._sweeps.note(event.sweep_id, event.progress)
        elif isinstance(event, Compared):
            self._outcome = event.outcome
        elif isinstance(event, Recorded):
            self._keep(event)
        elif isinstance(event, Ended):
            self._ended += 1
            if self._ended >= len(self._sweeps.sweeps()):
                self._display.close()
            self._exit_code = max(self._exit_code or 0, event.exit_code)
            self._reason = self._reason or event.reason
            self.is_over = self._ended >= event.sweeps

    def _start(self, event: Started) -> None:
        self._display.close()
        if event.reason:
            say(self._console, f"Sweep {event.sweep_id} ({event.reason})")
        if self._copies is not None:
            there = self._store.stored_trials(event.sweep_id).values()
            self._kept.update(trial.attempt_id for trial in there)
        self._sweeps.start(event)
        running = self._sweeps.sweeps()
        self._display.enter_context(
            watch(
                self._console,
                self._sweeps.plan(),
                self._sweeps.progress,
                lambda: [
                    verdict
                    for each in running
                    for verdict in verdicts_of(self._store, each.sweep_id, each.contrasts)
                ],
            )
        )

    def _keep(self, event: Recorded) -> None:
        if self._copies is not None and event.record.attempt_id not in self._kept:
            self._copies.write(event.record)
            self._kept.add(event.record.attempt_id)

    def close(self) -> None:
        self._display.close()
        if self._copies is not None:
            for each in self._sweeps.sweeps():
                self._copies.compact(each.sweep_id)

    def report(self, ended_as: str) -> JobReport:
        """Raises SpecError where nothing was started, with the reason; UnfinishedError where the driver, or that
        of one of several GPU models, ended without a word, as `ended_as` says.
        """
        if self._reason is not None:
            raise SpecError(self._reason)
        if self._exit_code is None or not self.is_over:
            raise UnfinishedError(ended_as)
        return JobReport(exit_code=self._exit_code, outcome=self._outcome)


def follow(jobs: Jobs, job_id: str, results: str, console: Console) -> JobReport:
    """Until the job ends. Raises UnfinishedError where the cluster is not reached any more, or the job
    ended early; SpecError where nothing was started.
    """
    follower = Follower(results, console, copies=not Location(results).is_url)
    try:
        _read_all(lambda: jobs.follow(job_id), lambda: jobs.state(job_id)[0] in ENDED, follower)
    finally:
        follower.close()
    if follower.is_over:
        return follower.report("")
    state, message = jobs.state(job_id)
    last = message.strip().rpartition("\n")[2]  # of a traceback its error
    return follower.report(f"job {job_id} ended as {state}: {last}")


def _read_all(
    open_stream: Callable[[], AsyncIterator[str]], has_ended: Callable[[], bool], follower: Follower
) -> None:
    """The stream begins anew after each break: lines that came before are passed over."""
    taken = tries = 0
    while True:
        try:
            for number, line in enumerate(_lines(open_stream())):
                if number >= taken:
                    follower.take(line)
                    taken, tries = number + 1, 0
                if follower.is_over:
                    return
            if has_ended():
                return
        except (ClusterError, OSError, RuntimeError) as error:
            if tries == TRIES:
                raise UnfinishedError(f"the cluster does not answer any more: {error}") from error
        tries += 1
        sleep(RECONNECT_S)


def _lines(chunks: AsyncIterator[str]) -> Iterator[str]:
    with asyncio.Runner() as runner:
        rest = ""
        while True:
            piece = runner.run(_next(chunks))
            if piece is None:
                break
            rest += piece
            *whole, rest = rest.split("\n")
            yield from whole
        if rest:
            yield rest


async def _next(chunks: AsyncIterator[str]) -> str | None:
    return await anext(chunks, None)


class MergedSweeps:
    """Sweeps of one job, one for each GPU model, as a display takes them: one plan, and how far all are."""

    def __init__(self) -> None:
        self._started: dict[str, Started] = {}
        self._progress: dict[str, Progress] = {}
        self._shifts: dict[str, int] = {}
        """What is added to a sweep's positions, so that no two trials have the same."""

    def start(self, event: Started) -> None:
        """A sweep, or what of one that has run runs again."""
        self._started[event.sweep_id] = event
        self._progress[event.sweep_id] = Progress()
        shift = 0
        for each in self.sweeps():
            self._shifts[each.sweep_id] = shift
            shift += 1 + max((trial.position for trial in each.plan.trials), default=0)

    def note(self, sweep_id: str, progress: Progress) -> None:
        self._progress[sweep_id] = progress

    def sweeps(self) -> list[Started]:
        return list(self._started.values())

    def plan(self) -> Plan:
        trials = [
            replace(trial, position=trial.position + self._shifts[each.sweep_id])
            for each in self.sweeps()
            for trial in each.plan.trials
        ]
        return replace(self.sweeps()[-1].plan, trials=tuple(trials))

    def progress(self) -> Progress:
        found = Progress()
        for sweep_id, own in self._progress.items():
            shift = self._shifts[sweep_id]
            slots = {
                slot: replace(state, position=state.position + shift)
                for slot, state in own.slots.items()
            }
            found = found.then(replace(own, slots={**found.slots, **slots}))
        return found
