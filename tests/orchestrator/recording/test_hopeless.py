"""When cells are given up and slots stopped, of records and reasons that are made up."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.orchestrator.recording import recorder as recording
from cudnn_sweep.orchestrator.recording.recorder import (
    Failure,
    Hopeless,
    Progress,
    Recorder,
    configs_to_fail,
)

RAISED = "ValueError at net.py:3: too narrow"


@pytest.fixture(autouse=True)
def _configs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record's config is its name."""
    monkeypatch.setattr(recording, "settings", lambda: ["config"])
    monkeypatch.setattr(recording, "texts_of", lambda values: values["config"])
    monkeypatch.setattr(recording, "config_name", lambda name: name)


def given_up(configs: int | None, *records: str) -> dict[str, str]:
    """Return the cells that are given up. A record is its config's letter, with a sign of how it ended."""
    hopeless = Hopeless(configs)
    for text in records:
        name, ended = text[0], text[1]
        status = {"!": "error", "?": "error", "x": "killed", "=": "ok"}[ended]
        message = {"!": RAISED, "?": "TypeError at net.py:9: odd"}.get(ended)
        record: Any = SimpleNamespace(cell_id="a", status=status, message=message, config=name)
        hopeless.note(record)
    return hopeless.cells


@pytest.mark.parametrize(
    ("configs", "records", "gives_up"),
    [
        (2, ["a!", "a!", "b!", "b!"], True),
        (2, ["a!", "a!", "b!"], False),
        (2, ["a!", "b!", "a!", "b!"], True),
        (2, ["a!", "a!", "a!", "a!"], False),
        (1, ["a!", "a!"], True),
        (1, ["a!"], False),
        (1, ["a!", "a?"], False),
        (2, ["a!", "a!", "b?", "b?"], False),
        (2, ["a=", "a!", "a!", "b!", "b!"], False),
        (1, ["ax", "ax", "ax"], False),
        (None, ["a!", "a!"], False),
    ],
)
def test_a_cell_is_given_up_once_every_config_raised_the_same_twice(
    configs: int | None, records: list[str], gives_up: bool
) -> None:
    assert given_up(configs, *records) == ({"a": RAISED} if gives_up else {})


@pytest.mark.parametrize(
    ("configs", "contrasts", "count"), [(1, 0, 1), (1, 1, 2), (2, 1, 2), (5, 3, 5), (3, 0, 3)]
)
def test_at_least_two_configs_must_fail_if_any_are_compared(
    configs: int, contrasts: int, count: int
) -> None:
    plan = SimpleNamespace(configs=lambda: ["config"] * configs)
    session: Any = SimpleNamespace(plan=plan, contrasts=["contrast"] * contrasts)
    assert configs_to_fail(session) == count


def test_a_second_equal_reason_stops_the_sweep(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))
    assert not recorder.slot_failed("no CUDA")
    assert not recorder.slot_failed("no room")
    assert recorder.begin("t", "s") == 1
    assert recorder.slot_failed("no CUDA")
    assert recorder.progress().stopped == "a slot did not start: no CUDA"
    assert recorder.begin("t", "s") is None
    recorder.stop("disk full")
    assert recorder.progress().stopped == "a slot did not start: no CUDA", "the first counts"


def test_each_reason_for_a_lost_trial_is_kept_once(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))
    for reason in ("died", "died", "gone"):
        recorder.trial_lost(reason)
    assert recorder.progress().reasons == ["died", "gone"]


@pytest.mark.parametrize(("expected", "up", "all_up"), [(2, 1, False), (2, 2, True), (1, 1, True)])
def test_slots_wait_until_all_are_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: int, up: int, all_up: bool
) -> None:
    monkeypatch.setattr(recording, "SLOTS_UP_S", 0.01)
    waited: list[bool] = []

    async def begin() -> None:
        recorder = Recorder(str(tmp_path))
        recorder.expect_slots(expected)
        wait = asyncio.wait_for

        async def noted(waiting: Any, seconds: float) -> None:
            waited.append(recorder._all_slots.is_set())
            await wait(waiting, seconds)

        monkeypatch.setattr(asyncio, "wait_for", noted)
        for _ in range(up):
            await recorder.wait_for_all_slots()

    asyncio.run(begin())
    assert waited[0] is (expected == 1)
    assert len(waited) == up


def test_a_slot_that_is_up_before_their_number_is_known_waits_for_the_others(
    tmp_path: Path,
) -> None:
    async def begin() -> None:
        recorder = Recorder(str(tmp_path))
        first = asyncio.ensure_future(recorder.wait_for_all_slots())
        await asyncio.sleep(0)
        recorder.expect_slots(2)
        assert not recorder._all_slots.is_set()
        await recorder.wait_for_all_slots()
        await first
        assert recorder._all_slots.is_set()

    asyncio.run(begin())


def test_slots_that_are_restarted_before_their_number_is_known_wait_for_it_alone(
    tmp_path: Path,
) -> None:
    async def begin() -> None:
        recorder = Recorder(str(tmp_path))
        slots = [asyncio.ensure_future(recorder.wait_for_all_slots()) for _ in range(3)]
        await asyncio.sleep(0)
        assert not recorder._all_slots.is_set()
        recorder.expect_slots(2)
        assert recorder._all_slots.is_set()
        await asyncio.gather(*slots)

    asyncio.run(begin())


def test_two_progresses_are_added() -> None:
    failure = Failure(trial_id="t", status="error", message="m")
    first = Progress(statuses={"ok": 2}, failures=[failure], repeated=1, lost=2, held=3)
    first.kept_in, first.reasons, first.given_up = {"/a": 1}, ["died"], ["t1"]
    first.standings, first.warnings = "1 of 2", ["throttled"]
    later = Progress(statuses={"ok": 1, "error": 1}, repeated=10, lost=20, held=30)
    later.kept_in, later.reasons, later.given_up = {"/a": 2}, ["died", "gone"], ["t2"]
    later.stopped = "full"
    both = first.then(later)
    assert both.statuses == {"ok": 3, "error": 1}
    assert (both.repeated, both.lost, both.held, both.recorded) == (11, 22, 33, 4)
    assert (both.kept_in, both.reasons) == ({"/a": 3}, ["died", "gone"])
    assert (both.given_up, both.failures) == (["t1", "t2"], [failure])
    assert (both.standings, both.stopped, both.warnings) == ("1 of 2", "full", ["throttled"])


def test_records_are_sheltered_in_the_first_folder_that_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []

    class Refuge:
        def __init__(self, location: str) -> None:
            self._location = location

        def write(self, _: Any) -> None:
            if self._location.endswith("full"):
                raise OSError("no space")
            written.append(Path(self._location).name)

    recorder = Recorder(str(tmp_path))
    monkeypatch.setattr(recording, "open_store", Refuge)
    monkeypatch.setattr(recording, "private_folder", lambda folder: folder)
    record: Any = None
    for _ in range(2):
        recorder._shelter(record, [tmp_path / "full", tmp_path / "shm", tmp_path / "home"])
    assert written == ["shm", "shm"]
    assert recorder.progress().kept_in == {str(tmp_path / "shm"): 2}
    recorder._shelter(record, [tmp_path / "full"])
    assert sum(recorder.progress().kept_in.values()) == 2


@pytest.mark.parametrize(
    ("followed", "fails", "ended", "stopped", "marked", "taken"),
    [
        (True, False, True, None, True, True),
        (False, False, True, None, True, False),
        (True, True, True, None, False, False),
        (False, True, True, None, False, False),
        (True, False, False, None, False, False),
        (True, False, True, "full", False, False),
    ],
)
def test_the_last_record_marks_the_end_of_a_launch_that_ended(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    followed: bool,
    fails: bool,
    ended: bool,
    stopped: str | None,
    marked: bool,
    taken: bool,
) -> None:
    """`taken`: whether whoever follows gets the mark, too."""
    written: list[Any] = []
    recorder = Recorder(str(tmp_path), followed=followed)
    recorder._mark_end()
    last: Any = SimpleNamespace(trial_id="t")
    end = SimpleNamespace(trial_id="t", ends_launch=True)

    def write(record: Any) -> str | None:
        if not fails:
            written.append(record)
        return "no space" if fails else None

    monkeypatch.setattr(recording, "replace", lambda record, **_: end)
    monkeypatch.setattr(recorder, "_write", write)
    recorder._last = last
    if ended:
        recorder.launch_ended()
    if stopped:
        recorder.stop(stopped)
    recorder._mark_end()
    assert written == [end] * marked
    assert recorder.take() == [end] * taken
