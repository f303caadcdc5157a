"""What jobs have said so far: how far their sweeps are, and the records that they made durable."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cudnn_sweep.analysis.answering.cell_names import stored_names
from cudnn_sweep.analysis.storing.location import Location
from cudnn_sweep.analysis.storing.schema import RunRecord
from cudnn_sweep.analysis.storing.store import Collector, Store, open_store
from cudnn_sweep.cluster.reach.jobs import Jobs, SentJob
from cudnn_sweep.orchestrator.locks.sweep_lock import holder_of
from cudnn_sweep.orchestrator.remote.events import Compared, Event, Progressed, Recorded, from_line

LAST_LINES = 500  # a line is a record of about 12 KB, or, each second, how far a sweep is


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
    """Of the sweep on this machine that recorded something last."""
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
    """How many were new here. Where results are a URL there is nothing to copy."""
    found = 0
    for job in _still_known(jobs, sent):
        collector = Collector(open_store(job.results))
        for record in _new_records(jobs, job):
            collector.write(record)
            found += 1
    return found


def missing_here(jobs: Jobs, sent: Iterable[SentJob]) -> int:
    return sum(len(_new_records(jobs, job)) for job in _still_known(jobs, sent))


def _still_known(jobs: Jobs, sent: Iterable[SentJob]) -> list[SentJob]:
    """Those that a head before this one had are lost with what they recorded since they were followed."""
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
    """As a night's job told it; None where it ended before."""
    events = list(_events(jobs.last_lines(job.job_id, LAST_LINES)))
    return next((event.outcome for event in events[::-1] if isinstance(event, Compared)), None)


def _all_here(told: list[Progressed], store: Store) -> bool:
    """By their numbers, which spares reading a job's whole output."""
    return bool(told) and all(_here(last, store) == last.recorded for last in told)


def _here(last: Progressed, store: Store) -> int:
    trials = store.stored_trials(last.sweep_id).values()
    return Counter(trial.launch_id for trial in trials)[last.launch_id]


def _last_told(jobs: Jobs, job: SentJob) -> list[Progressed]:
    """Each sweep's last Progressed, from the end of the output where that has one of every sweep."""
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
