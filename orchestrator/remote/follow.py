"""Follows a sweep that runs on a cluster: its display here, copies of its records home, how it ended; and what jobs have
said so far.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from time import sleep

from rich.console import Console

from cudnn_sweep.analysis.answering.cell_names import stored_names
from cudnn_sweep.analysis.storing.location import Location
from cudnn_sweep.analysis.storing.schema import RunRecord
from cudnn_sweep.analysis.storing.store import Store, open_store
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.reach.jobs import ENDED, Jobs, SentJob
from cudnn_sweep.orchestrator.errors import SpecError, UnfinishedError
from cudnn_sweep.orchestrator.locks.sweep_lock import holder_of
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.planning.standing import verdicts_of
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.orchestrator.remote.job import (
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
LAST_LINES = 500  # a line is a record of about 12 KB, or, each second, how far a sweep is
TRIES = 30  # in a row without a word before it is given up: the sweep itself goes on


@dataclass(frozen=True, kw_only=True, slots=True)
class JobReport:
    exit_code: int
    outcome: str
    """Of a night, as JSON; else empty."""


class Follower:
    """Handles a job's events: the display, copies of records, the end. A repeated event changes nothing."""

    def __init__(self, results: str, console: Console, *, copies: bool) -> None:
        """`copies`: that folder here gets them; else the records are in `results`."""
        self._console = console
        self._store = open_store(results)
        self._copies = copies
        self._sweeps = MergedSweeps()
        self._kept: set[str] = set()
        self._display = ExitStack()
        self._ended = 0
        self.is_over = False
        """Every event of the job has come: Ray takes seconds more to end it."""
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
        if self._copies:
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
        if self._copies and event.record.attempt_id not in self._kept:
            self._store.write(event.record)
            self._store.compact_many()
            self._kept.add(event.record.attempt_id)

    def close(self) -> None:
        self._display.close()
        if self._copies:
            for each in self._sweeps.sweeps():
                self._store.try_to_compact(each.sweep_id)

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
    """Follow a job to its end. Raises UnfinishedError if the cluster is not reached any more, or the job
    ended early; SpecError if nothing was started.
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
    """Read the stream, which begins again after each break: lines that came before are skipped."""
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

    def start(self, event: Started) -> None:
        """A sweep starts, or blocks of it that run again."""
        self._started[event.sweep_id] = event
        self._progress[event.sweep_id] = Progress()

    def note(self, sweep_id: str, progress: Progress) -> None:
        self._progress[sweep_id] = progress

    def sweeps(self) -> list[Started]:
        return list(self._started.values())

    def plan(self) -> Plan:
        trials = [trial for each in self.sweeps() for trial in each.plan.trials]
        return replace(self.sweeps()[-1].plan, trials=tuple(trials))

    def progress(self) -> Progress:
        found = Progress()
        for own in self._progress.values():
            found = found.then(replace(own, slots=found.slots | own.slots))
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepStatus:
    """How far a sweep of a job is, as the job said last."""

    sweep_id: str
    trials_planned: int
    trials_recorded: int
    stopped: str | None
    """Why no new trial starts."""

    def __str__(self) -> str:
        line = f"sweep {self.sweep_id}: {self.trials_recorded} of {self.trials_planned} trials recorded"
        return line if self.stopped is None else f"{line}\nno new trial starts: {self.stopped}"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobStatus:
    """A job, and each sweep of it: there is one for each GPU model."""

    job_id: str
    state: str
    """As Ray has it: pending, running, stopped, succeeded or failed."""
    message: str
    results: str
    sweeps: tuple[SweepStatus, ...]

    def __str__(self) -> str:
        return "\n".join([f"{self.job_id}: {self.state}. {self.message}", *map(str, self.sweeps)])


def status_of(jobs: Jobs, job: SentJob) -> JobStatus:
    state, message = jobs.state(job.job_id)
    return JobStatus(
        job_id=job.job_id,
        state=state.lower(),
        message=message.partition("\n")[0],
        results=job.results,
        sweeps=tuple(
            SweepStatus(
                sweep_id=last.sweep_id,
                trials_planned=last.planned,
                trials_recorded=last.recorded,
                stopped=last.progress.stopped,
            )
            for last in _last_told(jobs, job)
        ),
    )


def status_here(location: str) -> JobStatus:
    """Status of the sweep on this machine that has the newest record."""
    store, holder = open_store(location), holder_of(location)
    states = sorted(store.sweeps(), key=lambda state: state.last_ended_at)[-1:]
    told = [f"By {holder}"] if holder else []
    for last in states:
        rows = store.snapshot(last.sweep_id).table(["ended_at", "cell_id"]).sort_by("ended_at")
        if len(rows):  # none where its folder was renamed
            name = stored_names(store, last.sweep_id)[0][rows["cell_id"][-1].as_py()]
            told.append(f"Last trial: {name}, ended {last.last_ended_at:%F %T} UTC")
    return JobStatus(
        job_id="this machine",
        state="running" if holder else "not running",
        message=". ".join(told) or f"No trial is recorded in {location}",
        results=location,
        sweeps=tuple(
            SweepStatus(
                sweep_id=last.sweep_id,
                trials_planned=last.plan_trials,
                trials_recorded=last.recorded,
                stopped=None,
            )
            for last in states
        ),
    )


def pull_records(jobs: Jobs, sent: Iterable[SentJob]) -> int:
    """Copy new records into the results here, and count them. Results at a URL need no copy."""
    found = 0
    for job in _still_known(jobs, sent):
        store = open_store(job.results)
        for record in _new_records(jobs, job):
            store.write(record)
            store.compact_many()
            found += 1
    return found


def missing_here(jobs: Jobs, sent: Iterable[SentJob]) -> int:
    return sum(len(_new_records(jobs, job)) for job in _still_known(jobs, sent))


def _still_known(jobs: Jobs, sent: Iterable[SentJob]) -> list[SentJob]:
    """Jobs that the head knows. Those of an earlier head are lost, with records that were not copied."""
    known = jobs.ids()
    return [job for job in sent if job.job_id in known]


def _new_records(jobs: Jobs, job: SentJob) -> list[RunRecord]:
    if Location(job.results).is_url:
        return []
    store = open_store(job.results)
    if _all_here(_last_told(jobs, job), store):
        return []
    events = _events(jobs.output(job.job_id))
    records = [event.record for event in events if isinstance(event, Recorded)]
    there = {
        trial.attempt_id
        for sweep_id in {record.sweep_id for record in records}
        for trial in store.stored_trials(sweep_id).values()
    }
    return [record for record in records if record.attempt_id not in there]


def outcome_of(jobs: Jobs, job: SentJob) -> str | None:
    """Outcome of a night's job; None if it ended before it had one."""
    events = list(_events(jobs.last_lines(job.job_id, LAST_LINES)))
    return next((event.outcome for event in events[::-1] if isinstance(event, Compared)), None)


def _all_here(told: list[Progressed], store: Store) -> bool:
    """Whether every record is here, by their number: this spares reading a job's whole output."""
    return bool(told) and all(_here(last, store) == last.recorded for last in told)


def _here(last: Progressed, store: Store) -> int:
    trials = store.stored_trials(last.sweep_id).values()
    return Counter(trial.launch_id for trial in trials)[last.launch_id]


def _last_told(jobs: Jobs, job: SentJob) -> list[Progressed]:
    """Last Progressed of each sweep, from the end of the output if that has one of every sweep."""
    found = _last_of_each(_events(jobs.last_lines(job.job_id, LAST_LINES)))
    if found and len(found) == found[0].sweeps:
        return found
    return _last_of_each(_events(jobs.output(job.job_id)))


def _last_of_each(events: Iterable[Event]) -> list[Progressed]:
    found = {event.sweep_id: event for event in events if isinstance(event, Progressed)}
    return [found[sweep_id] for sweep_id in sorted(found)]


def _events(output: str) -> Iterator[Event]:
    for line in output.split("\n"):
        if event := from_line(line):
            yield event
