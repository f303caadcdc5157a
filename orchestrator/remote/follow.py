"""Follows a sweep that runs on a cluster: its display here, copies of its records home, how it ended; and what jobs have
said so far.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from time import sleep
from typing import TypeVar

from rich.console import Console

from cudnn_sweep.analysis.answering.cell_names import stored_names
from cudnn_sweep.analysis.answering.verdicts import Verdict
from cudnn_sweep.analysis.storing.location import Location
from cudnn_sweep.analysis.storing.schema import RunRecord
from cudnn_sweep.analysis.storing.store import Store, open_store
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.reach.jobs import ENDED, Jobs, SentJob
from cudnn_sweep.orchestrator.errors import SpecError, UnfinishedError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.locks.sweep_lock import holder_of
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.orchestrator.remote.job import (
    Ended,
    Event,
    Progressed,
    Recorded,
    Started,
    SweepStatus,
    from_line,
)
from cudnn_sweep.orchestrator.showing.display import watch
from cudnn_sweep.orchestrator.showing.say import say

RECONNECT_S = 2.0
LAST_LINES = 500  # a line is a record of about 12 KB, or, each second, how far the job is
TRIES = 30  # in a row without a word before it is given up: the sweep itself goes on

E = TypeVar("E", bound=Event)


class Follower:
    """Handles a job's events: the display, copies of records, the end. A repeated event changes nothing."""

    def __init__(self, results: str, console: Console, *, copies: bool) -> None:
        """`copies`: that folder here gets them; else the records are in `results`."""
        self._console = console
        self._store = open_store(results)
        self._copies = copies
        self._sweep_ids: set[str] = set()
        self._kept: set[str] = set()
        self._progress = Progress()
        self._display = ExitStack()
        self.ended: Ended | None = None
        """The last event of the job: Ray takes seconds more to end it."""

    def take(self, line: str) -> None:
        event = from_line(line)
        if event is None:
            say(self._console, line)
        elif isinstance(event, Started):
            self._start(event)
        elif isinstance(event, Progressed):
            self._progress = event.progress
        elif isinstance(event, Recorded):
            self._keep(event.record)
        else:
            self._display.close()
            self.ended = event

    def _start(self, event: Started) -> None:
        """A sweep starts, or blocks of it that run again."""
        self._display.close()
        if event.reason:
            say(self._console, f"Sweep {event.sweep_id} ({event.reason})")
        if self._copies:
            there = self._store.stored_trials(event.sweep_id).values()
            self._kept.update(trial.attempt_id for trial in there)
        self._sweep_ids.add(event.sweep_id)
        self._progress = Progress()
        self._display.enter_context(
            watch(
                self._console,
                event.plan,
                lambda: self._progress,
                lambda: Verdict.of_each(self._store, event.sweep_id, event.contrasts),
            )
        )

    def _keep(self, record: RunRecord) -> None:
        if self._copies and (record.ends_launch or record.attempt_id not in self._kept):
            self._store.write(record)
            self._store.compact_many()
            self._kept.add(record.attempt_id)

    def close(self) -> None:
        self._display.close()
        if self._copies:
            for sweep_id in self._sweep_ids:
                self._store.try_to_compact(sweep_id)

    def report(self, ended_as: str) -> Ended:
        """Raises SpecError where nothing was started, with the reason; UnfinishedError where the driver ended without
        a word, as `ended_as` says.
        """
        if self.ended is None:
            raise UnfinishedError(ended_as)
        if self.ended.reason is not None:
            error = SpecError(self.ended.reason)
            error.exit_code = ExitCode(self.ended.exit_code)
            raise error
        return self.ended


def follow(jobs: Jobs, job: SentJob, console: Console) -> Ended:
    """Follow a job to its end. Raises UnfinishedError if the cluster is not reached any more, or the job
    ended early; SpecError if nothing was started.
    """
    follower = Follower(job.results, console, copies=not Location(job.results).is_url)
    try:
        _read_all(jobs, job.job_id, follower)
    finally:
        follower.close()
    if follower.ended:
        return follower.report("")
    state, message = jobs.state(job.job_id)
    last = message.strip().rpartition("\n")[2]  # of a traceback its error
    return follower.report(f"job {job.job_id} ended as {state}: {last}")


def _read_all(jobs: Jobs, job_id: str, follower: Follower) -> None:
    """Read the job's output, which begins again after each break: lines that came before are skipped."""
    taken = tries = 0
    while True:
        try:
            for number, line in enumerate(_lines(jobs.follow(job_id))):
                if number >= taken:
                    follower.take(line)
                    taken, tries = number + 1, 0
                if follower.ended:
                    return
            if jobs.state(job_id)[0] in ENDED:
                return
        except (ClusterError, OSError, RuntimeError) as error:
            if tries == TRIES:
                raise UnfinishedError(f"the cluster does not answer any more: {error}") from error
        tries += 1
        sleep(RECONNECT_S)


def _lines(chunks: AsyncIterator[str]) -> Iterator[str]:
    async def following() -> str | None:
        return await anext(chunks, None)

    with asyncio.Runner() as runner:
        rest = ""
        while (piece := runner.run(following())) is not None:
            *whole, rest = (rest + piece).split("\n")
            yield from whole
        if rest:
            yield rest


@dataclass(frozen=True, kw_only=True, slots=True)
class JobStatus:
    """A job, and each sweep of it."""

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
        sweeps=tuple(_sweeps_of(jobs, job).values()),
    )


def status_here(location: str) -> JobStatus:
    """Status of the sweep on this machine that has the newest record."""
    store, holder = open_store(location), holder_of(location)
    states = sorted(store.sweeps(), key=lambda state: state.last_ended_at)[-1:]
    words = [f"By {holder}"] if holder else []
    for last in states:
        rows = store.snapshot(last.sweep_id).table(["ended_at", "cell_id"]).sort_by("ended_at")
        if len(rows):  # none where its folder was renamed
            name = stored_names(store, last.sweep_id)[rows["cell_id"][-1].as_py()]
            words.append(f"Last trial: {name}, ended {last.last_ended_at:%F %T} UTC")
    return JobStatus(
        job_id="this machine",
        state="running" if holder else "not running",
        message=". ".join(words) or f"No trial is recorded in {location}",
        results=location,
        sweeps=tuple(
            SweepStatus(
                sweep_id=last.sweep_id,
                trials_planned=last.plan_trials,
                trials_recorded=last.recorded,
            )
            for last in states
        ),
    )


def pull_records(jobs: Jobs, sent: Iterable[SentJob]) -> int:
    """Copy new records into the results here, and count them. Results at a URL need no copy."""
    count = 0
    for job, records in _new_records(jobs, sent):
        store = open_store(job.results)
        for record in records:
            store.write(record)
            store.compact_many()
        count += len(records)
    return count


def missing_here(jobs: Jobs, sent: Iterable[SentJob]) -> int:
    return sum(len(records) for _, records in _new_records(jobs, sent))


def _new_records(jobs: Jobs, sent: Iterable[SentJob]) -> Iterator[tuple[SentJob, list[RunRecord]]]:
    """The records of each job that are not here. Jobs of an earlier head are lost, with what was not copied."""
    there = jobs.ids()
    for job in sent:
        if job.job_id not in there or Location(job.results).is_url:
            continue
        store = open_store(job.results)
        if _are_all_here(_sweeps_of(jobs, job), store):
            continue
        events = _events(jobs.output(job.job_id))
        found = (event.record for event in events if isinstance(event, Recorded))
        records = {each.attempt_id: each for each in found}.values()  # a launch's last one, marked
        stored = {
            (trial.attempt_id, mark)
            for sweep_id in {record.sweep_id for record in records}
            for trial in store.stored_trials(sweep_id).values()
            for mark in (False, trial.ends_launch)
        }
        lacking = [each for each in records if (each.attempt_id, each.ends_launch) not in stored]
        yield job, lacking


def _are_all_here(sweeps: dict[str, SweepStatus], store: Store) -> bool:
    """Whether every record is here, by their number: this spares reading a job's whole output."""
    for launch_id, sweep in sweeps.items():
        trials = store.stored_trials(sweep.sweep_id).values()
        own = [trial for trial in trials if trial.launch_id == launch_id]
        if len(own) != sweep.trials_recorded:
            return False
        if sweep.ended and not any(trial.ends_launch for trial in own):
            return False
    return bool(sweeps)


def outcome_of(jobs: Jobs, job: SentJob) -> str | None:
    """Outcome of a night's job; None if it ended before it had one."""
    ended = _last(Ended, jobs.last_lines(job.job_id, LAST_LINES))
    return ended.outcome if ended else None


def _sweeps_of(jobs: Jobs, job: SentJob) -> dict[str, SweepStatus]:
    """The job's sweeps by launch_id, as the job said last."""
    last = _last(Progressed, jobs.last_lines(job.job_id, LAST_LINES))
    last = last or _last(Progressed, jobs.output(job.job_id))
    return last.sweeps if last else {}


def _last(kind: type[E], output: str) -> E | None:
    return next((event for event in [*_events(output)][::-1] if isinstance(event, kind)), None)


def _events(output: str) -> Iterator[Event]:
    for line in output.split("\n"):
        if event := from_line(line):
            yield event
