"""Records that are copied home from a cluster: each once, and then the mark of the launch's end."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.cluster.jobs.jobs import Jobs, SentJob
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.orchestrator.remote.follow import Follower, pull_records
from cudnn_sweep.orchestrator.remote.job import Progressed, Recorded, SweepStatus, to_line
from tests.makers import MakePlan, RecordOf


@pytest.fixture
def records(tmp_path: Path, plan_of: MakePlan, record_of: RecordOf) -> list[RunRecord]:
    """Two trials, and the second again as its launch ends."""
    plan = plan_of("noop")
    session = session_of(plan, "june", tmp_path)
    first, last = (record_of(session, trial) for trial in plan.trials[:2])
    return [first, last, replace(last, ends_launch=True)]


def marks(folder: Path) -> list[bool | None]:
    rows = open_store(str(folder)).stored_trials("june").values()
    return [row.ends_launch for row in sorted(rows, key=lambda row: row.ended_at)]


def test_whoever_follows_gets_each_record_and_then_the_end(
    tmp_path: Path, records: list[RunRecord]
) -> None:
    follower = Follower(str(tmp_path), Console(quiet=True))
    for record in [*records, *records]:
        follower.take(to_line(Recorded(record=record)))
    follower.close()
    assert marks(tmp_path) == [False, True]


@dataclass
class Head:
    """What a job has printed so far."""

    lines: list[str]

    def output(self, job_id: str) -> str:
        return "\n".join(self.lines)

    def last_lines(self, job_id: str, count: int) -> str:
        return "\n".join(self.lines[-count:])


def test_a_pull_after_the_last_trial_still_brings_the_end(
    tmp_path: Path, records: list[RunRecord]
) -> None:
    head = Head([])
    job = SentJob(job_id="job", results=str(tmp_path), sweep="")
    copied = []
    for record in records:
        trials = 1 + records.index(record) - record.ends_launch
        how_far: dict[str, Any] = {"trials_recorded": trials, "ended": record.ends_launch}
        sweep = SweepStatus(sweep_id="june", trials_planned=2, **how_far)
        told = Progressed(progress=Progress(), sweeps={record.launch_id: sweep})
        head.lines += [to_line(Recorded(record=record)), to_line(told)]
        copied += [pull_records(cast("Jobs", head), [job]) for _ in range(2)]
    assert copied == [1, 0, 1, 0, 1, 0]
    assert marks(tmp_path) == [False, True]
