"""What a job has said so far: how far its sweep is, and the records that it made durable."""

from collections.abc import Iterator

from cudnn_sweep.analysis.schema import RunRecord
from cudnn_sweep.analysis.store import open_store
from cudnn_sweep.cluster.jobs import Jobs
from cudnn_sweep.cluster.known import SentJob
from cudnn_sweep.orchestrator.remote.events import (
    Event,
    Progressed,
    Recorded,
    Started,
    from_line,
)


def status_text(jobs: Jobs, job: SentJob) -> str:
    """A line for the job, and one for each sweep of it: there is one for each GPU model."""
    state, message = jobs.state(job.job_id)
    lines = [f"{job.job_id}: {state.lower()}. {message.partition(chr(10))[0]}"]
    planned = recorded = 0
    for event in _events(jobs, job):
        if isinstance(event, Started):
            lines.append(f"sweep {event.sweep_id}: {event.reason}")
            planned += sum(trial.repeats_block is None for trial in event.plan.trials)
        elif isinstance(event, Recorded):
            recorded += event.record.repeats_block is None
        elif isinstance(event, Progressed) and event.progress.stopped:
            lines.append(f"no new trial starts: {event.progress.stopped}")
    if planned:
        lines.append(f"{recorded} of {planned} trials recorded")
    return "\n".join(dict.fromkeys(lines))


def pull_records(jobs: Jobs, job: SentJob) -> int:
    """How many were new here. Where results are a URL there is nothing to copy."""
    new = _new_records(jobs, job)
    store = open_store(job.results)
    for record in new:
        store.write(record)
    return len(new)


def missing_here(jobs: Jobs, job: SentJob) -> int:
    return len(_new_records(jobs, job))


def _new_records(jobs: Jobs, job: SentJob) -> list[RunRecord]:
    if "://" in job.results:
        return []
    store = open_store(job.results)
    records = [event.record for event in _events(jobs, job) if isinstance(event, Recorded)]
    there = {
        trial.attempt_id
        for sweep_id in {record.sweep_id for record in records}
        for trial in store.stored_trials(sweep_id).values()
    }
    return [record for record in records if record.attempt_id not in there]


def _events(jobs: Jobs, job: SentJob) -> Iterator[Event]:
    for line in jobs.output(job.job_id).split("\n"):
        if event := from_line(line):
            yield event
