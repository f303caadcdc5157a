"""Follows a job on a cluster, and copies its records."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from time import monotonic, sleep

from rich.console import Console

from cudnn_sweep.analysis.results.cell_names import stored_names
from cudnn_sweep.analysis.results.verdicts import Verdict
from cudnn_sweep.analysis.store.location import Location
from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.jobs.jobs import ENDED, Jobs, SentJob
from cudnn_sweep.orchestrator.errors import SpecError, UnfinishedError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.locks.sweep_lock import holder_of
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.orchestrator.remote.job import (
    Ended,
    Progressed,
    Recorded,
    Started,
    SweepStatus,
    from_line,
)
from cudnn_sweep.orchestrator.terminal.display import watch
from cudnn_sweep.orchestrator.terminal.say import say

RECONNECT_S = 2.0
LOST_S = 180.0  # time without a connection after which following ends
LAST_LINES = 500  # a line with a record has about 12 KB


class Follower:
    """Handles the events of a job. It shows progress and copies records."""

    def __init__(self, results: str, console: Console, *, is_here: bool = False) -> None:
        """Copy no records if `is_here` is true, because the job itself writes into `results`."""
        self._console = console
        self._store = open_store(results)
        self._copies = not (is_here or Location(results).is_url)
        self._kept: dict[str, dict[str, bool]] = {}
        """Whether a stored attempt ends a launch, by sweep_id and then by attempt_id."""
        self.new: set[str] = set()
        """Ids of the attempts that were copied."""
        self._progress = Progress()
        self._display = ExitStack()
        self.ended: Ended | None = None

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
        self._display.close()
        if event.reason:
            say(self._console, f"Sweep {event.sweep_id} ({event.reason})")
        self._progress = Progress()
        verdicts = partial(Verdict.of_each, self._store, event.sweep_id, event.contrasts)
        shown = watch(self._console, event.plan, lambda: self._progress, verdicts)
        self._display.enter_context(shown)

    def _keep(self, record: RunRecord) -> None:
        """Copy a record into the results, unless it is there already."""
        if not self._copies:
            return
        if record.sweep_id not in self._kept:
            trials = self._store.stored_trials(record.sweep_id).values()
            self._kept[record.sweep_id] = {t.attempt_id: bool(t.ends_launch) for t in trials}
        kept = self._kept[record.sweep_id]
        if record.ends_launch > kept.get(record.attempt_id, -1):
            self._store.write(record)
            self._store.compact_many()
            self.new.add(record.attempt_id)
            kept[record.attempt_id] = record.ends_launch

    def close(self) -> None:
        self._display.close()
        for sweep_id in self._kept:
            self._store.try_to_compact(sweep_id)

    def report(self, ended_as: str) -> Ended:
        """Return `ended`. Raises UnfinishedError if it is None, SpecError if the driver failed."""
        if self.ended is None:
            raise UnfinishedError(ended_as)
        if self.ended.reason is not None:
            error = SpecError(self.ended.reason)
            error.exit_code = ExitCode(self.ended.exit_code)
            raise error
        return self.ended


def follow(
    connect: Callable[[], AbstractContextManager[Jobs]], job: SentJob, console: Console
) -> Ended:
    """Follow a job. Raises the errors of `report`, or ClusterError after LOST_S out of contact."""
    follower = Follower(job.results, console)
    taken, lost_at = 0, None
    try:
        while True:
            try:
                with connect() as jobs:
                    for number, line in enumerate(jobs.follow(job.job_id)):
                        if number >= taken:  # a new connection repeats the output from its start
                            follower.take(line)
                            taken, lost_at = number + 1, None
                        if follower.ended:
                            return follower.report("")
                    state, message = jobs.state(job.job_id)
                if state in ENDED:
                    last = message.strip().rpartition("\n")[2]  # the error of a traceback
                    return follower.report(f"job {job.job_id} ended as {state}: {last}")
            except ClusterError:
                lost_at = lost_at or monotonic()
                if monotonic() - lost_at >= LOST_S:
                    raise
            sleep(RECONNECT_S)
    finally:
        follower.close()


@dataclass(frozen=True, kw_only=True, slots=True)
class JobStatus:
    job_id: str
    state: str
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
    """Return the status of this machine, with the newest sweep in `location`."""
    store, holder = open_store(location), holder_of(location)
    words, sweeps = [f"By {holder}"] if holder else [], []
    if last := max(store.sweeps(), key=lambda state: state.last_ended_at, default=None):
        sweep_id, planned, recorded = last.sweep_id, last.plan_trials, last.recorded
        rows = store.snapshot(sweep_id).table(["ended_at", "cell_id"]).sort_by("ended_at")
        if len(rows):  # no rows if the sweep's folder was renamed
            name = stored_names(store, sweep_id)[rows["cell_id"][-1].as_py()]
            words.append(f"Last trial: {name}, ended {last.last_ended_at:%F %T} UTC")
        sweeps = [SweepStatus(sweep_id=sweep_id, trials_planned=planned, trials_recorded=recorded)]
    return JobStatus(
        job_id="this machine",
        state="running" if holder else "not running",
        message=". ".join(words) or f"No trial is recorded in {location}",
        results=location,
        sweeps=tuple(sweeps),
    )


def pull_records(jobs: Jobs, sent: Iterable[SentJob]) -> int:
    """Copy the records of jobs to this machine. Return the number of new records."""
    return sum(len(fetch(jobs, job).new) for job in sent if missing_here(jobs, job))


def fetch(jobs: Jobs, job: SentJob) -> Follower:
    """Read a job's output so far, and copy its records. Return the Follower that was used."""
    follower = Follower(job.results, Console(quiet=True, force_terminal=False))
    for line in jobs.output(job.job_id).split("\n"):
        follower.take(line)
    follower.close()
    return follower


def missing_here(jobs: Jobs, job: SentJob) -> int:
    """Return how many records of the job have not been copied to this machine."""
    if Location(job.results).is_url:
        return 0
    store, missing = open_store(job.results), 0
    for launch_id, sweep in _sweeps_of(jobs, job).items():
        trials = store.stored_trials(sweep.sweep_id).values()
        own = [trial for trial in trials if trial.launch_id == launch_id]
        is_unmarked = sweep.ended and not any(trial.ends_launch for trial in own)
        missing += sweep.trials_recorded - len(own) or is_unmarked
    return missing


def _sweeps_of(jobs: Jobs, job: SentJob) -> dict[str, SweepStatus]:
    """Return the latest status of each launch of the job, by launch_id."""
    for is_whole in (False, True):
        output = jobs.output(job.job_id) if is_whole else jobs.last_lines(job.job_id, LAST_LINES)
        for event in map(from_line, reversed(output.split("\n"))):
            if isinstance(event, Progressed):
                return event.sweeps
    return {}
