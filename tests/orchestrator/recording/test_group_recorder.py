"""Records of many slots: those that come while others are written are written together, next."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest

from cudnn_sweep.analysis.errors import StoreError
from cudnn_sweep.analysis.store import parquet
from cudnn_sweep.analysis.store.folder import LocalFolder
from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.analysis.store.store import Store, open_store
from cudnn_sweep.orchestrator.planning.session import session_of
from cudnn_sweep.orchestrator.recording.recorder import MAX_LOST, Failure, Progress, Recorder
from tests.makers import MakePlan, RecordOf

SWEEP_ID = "together"


class Disk(LocalFolder):
    """A folder of which each write waits until it may end, and then may fail."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.goes_on = Event()
        self.is_full = False
        self.begun = 0

    def write(self, path: str, content: pa.Buffer) -> None:
        self.begun += 1
        assert self.goes_on.wait(20)
        if self.is_full:
            raise StoreError("no room")
        super().write(path, content)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk(str(tmp_path))
    monkeypatch.setattr(
        "cudnn_sweep.orchestrator.recording.recorder.open_store", lambda _: Store(disk)
    )
    return disk


@pytest.fixture
def records(tmp_path: Path, plan_of: MakePlan, record_of: RecordOf) -> list[RunRecord]:
    plan = plan_of("noop", replicates=3)
    session = session_of(plan, SWEEP_ID, tmp_path)
    return [record_of(session, trial) for trial in plan.trials[:5]]


@asynccontextmanager
async def first_under_way(
    disk: Disk, records: list[RunRecord]
) -> AsyncIterator[tuple[Recorder, list[asyncio.Task[bool]]]]:
    """The first of the records is being written, the others have come; then writes go on."""
    recorder = Recorder(disk.location)
    answers = [asyncio.create_task(recorder.record(records[0]))]
    while not disk.begun:
        await asyncio.sleep(0.001)
    answers += [asyncio.create_task(recorder.record(record)) for record in records[1:]]
    await asyncio.sleep(0.01)
    assert not any(answer.done() for answer in answers), "none is durable"
    yield recorder, answers
    disk.goes_on.set()
    await asyncio.gather(*answers)


def rows_of_files(location: str) -> list[int]:
    store = open_store(location)
    return sorted(parquet.read(store.folder, path).num_rows for path in store.files())


def test_those_that_come_during_a_write_are_one_file_and_each_is_told_once_it_is_durable(
    disk: Disk, records: list[RunRecord]
) -> None:
    async def run() -> None:
        async with first_under_way(disk, records) as (recorder, answers):
            assert recorder.begin("another", "slot-9") == 1, "others are answered meanwhile"
            assert recorder.progress().recorded == 0
        assert [answer.result() for answer in answers] == [True] * 5
        assert rows_of_files(disk.location) == [1, 4]
        assert recorder.progress().recorded == 5
        assert disk.begun == 2
        assert (await recorder.finish(SWEEP_ID, [])).recorded == 5

    asyncio.run(run())
    assert rows_of_files(disk.location) == [5]
    stored = open_store(disk.location).stored_trials(SWEEP_ID)
    assert stored.keys() == {record.trial_id for record in records}


def test_a_trial_is_given_up_after_so_many_further_tries(tmp_path: Path) -> None:
    recorder, ids = Recorder(str(tmp_path)), {"fine": 1, "tried": MAX_LOST, "lost": 1 + MAX_LOST}
    for trial_id, tries in ids.items():
        assert [recorder.begin(trial_id, "GPU-0") for _ in range(tries)][-1] == tries
    assert recorder.wanted(dict.fromkeys(ids, "a cell")) == {"fine", "tried"}
    assert asyncio.run(recorder.finish(SWEEP_ID, [])).given_up == ["lost"]


@pytest.mark.parametrize(
    ("ended", "stopped", "marks"), [(True, False, 1), (False, False, 0), (True, True, 0)]
)
def test_the_last_row_of_a_launch_that_ended_says_so(
    tmp_path: Path, records: list[RunRecord], ended: bool, stopped: bool, marks: int
) -> None:
    """One that was cut or stopped goes on when it is resumed."""

    async def run() -> list[RunRecord]:
        recorder = Recorder(str(tmp_path), followed=True)
        for record in records:
            await recorder.record(record)
        if stopped:
            recorder.stop("no GPU any more")
        if ended:
            recorder.launch_ended()
        assert (await recorder.finish(SWEEP_ID, [])).recorded == 5
        return recorder.take()

    followed = asyncio.run(run())
    assert [each.ends_launch for each in followed] == [False] * 5 + [True] * marks
    assert rows_of_files(str(tmp_path)) == [5]
    rows = open_store(str(tmp_path)).stored_trials(SWEEP_ID).values()
    last = max(rows, key=lambda row: row.ended_at)
    assert [row.trial_id for row in rows if row.ends_launch] == [last.trial_id] * marks
    assert not marks or followed[-1].trial_id == last.trial_id


def test_a_second_record_of_a_trial_waits_for_the_first_and_is_dropped(
    disk: Disk, records: list[RunRecord]
) -> None:
    again = [replace(record, attempt_id=f"late-{at}") for at, record in enumerate(records[:2])]

    async def run() -> None:
        async with first_under_way(disk, [*records, *again]) as (recorder, answers):
            assert recorder.progress().repeated == 2
        assert all(answer.result() for answer in answers)
        assert recorder.progress().recorded == 5

    asyncio.run(run())
    assert rows_of_files(disk.location) == [1, 4]
    stored = open_store(disk.location).stored_trials(SWEEP_ID)
    assert {trial.attempt_id for trial in stored.values()} == {
        record.attempt_id for record in records
    }


def test_a_write_that_fails_holds_all_its_records_until_the_end(
    disk: Disk, records: list[RunRecord]
) -> None:
    async def run() -> None:
        async with first_under_way(disk, records) as (recorder, answers):
            disk.is_full = True
        assert [answer.result() for answer in answers] == [False] * 5
        progress = recorder.progress()
        assert (progress.stopped, progress.held, progress.recorded) == ("no room", 5, 0)
        assert recorder.begin("another", "slot-9") is None
        assert rows_of_files(disk.location) == []
        disk.is_full = False
        finished = await recorder.finish(SWEEP_ID, [])
        assert (finished.held, finished.recorded) == (0, 5)

    asyncio.run(run())
    assert open_store(disk.location).stored_trials(SWEEP_ID).keys() == {
        record.trial_id for record in records
    }


def test_the_end_waits_for_the_write_under_way(disk: Disk, records: list[RunRecord]) -> None:
    async def run() -> None:
        async with first_under_way(disk, records) as (recorder, _):
            ended = asyncio.create_task(recorder.finish(SWEEP_ID, []))
            await asyncio.sleep(0.01)
            assert not ended.done()
        assert (await ended).recorded == 5

    asyncio.run(run())
    assert rows_of_files(disk.location) == [5], "compacted after the last was written"


def test_a_launch_of_two_plans_tells_of_both() -> None:
    failures = [Failure(trial_id=name, status="error", message="it") for name in "ab"]
    first = Progress(
        statuses={"ok": 2, "error": 1},
        slots={"GPU-1": "x"},
        failures=failures[:1],
        warnings=["throttled"],
        repeated=1,
        lost=2,
        held=3,
        kept_in={"/a": 1},
        reasons=["gone"],
        given_up=["a"],
        hopeless={"one": "it"},
        standings="3 of 4 cells",
        stopped="time is up",
    )
    later = Progress(
        statuses={"ok": 5},
        failures=failures[1:],
        warnings=["throttled", "shared_gpu"],
        repeated=10,
        lost=20,
        held=30,
        kept_in={"/a": 2, "/b": 1},
        reasons=["gone", "full"],
        given_up=["b"],
        hopeless={"two": "it"},
    )
    both = first.then(later)
    assert both == Progress(
        statuses={"ok": 7, "error": 1},
        failures=failures,
        warnings=["throttled", "shared_gpu"],
        repeated=11,
        lost=22,
        held=33,
        kept_in={"/a": 3, "/b": 1},
        reasons=["gone", "full"],
        given_up=["a", "b"],
        hopeless={"one": "it", "two": "it"},
        standings="3 of 4 cells",
        stopped="time is up",
    )
    assert both.recorded == 8
    assert first.then(Progress(standings="4 of 4 cells")).standings == "4 of 4 cells"
    assert Progress().then(Progress(stopped="Ctrl-C")).stopped == "Ctrl-C"
