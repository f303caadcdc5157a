"""Which steps a launch takes and how it ends, if it is cut or lost, of a place and a sweep that are made up."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.orchestrator.errors import UnfinishedError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.orchestrator.running import run_sweep as running
from cudnn_sweep.orchestrator.running.run_sweep import (
    OpenSweep,
    Ran,
    open_results,
    run_sweep,
    tell_stopped,
)


@dataclass(frozen=True)
class Session:
    sweep_id: str
    scratch: Path
    lock_name: str = "lock"
    reason: str = "a new sweep"


class Launch:
    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        folder: Path,
        *,
        codes: bool = False,
        may_skip: bool = False,
        lacks: bool = True,
        repeats: bool = False,
        ends: BaseException | None = None,
        complete: bool = False,
        stored: bool = True,
    ) -> None:
        self.did: list[str] = []
        scratch = folder / "scratch/june.hash"
        for name in ("june.hash", "old.hash", "may.hash", "may-shard-1-of-2.hash", "other.lock"):
            (folder / "scratch" / name).mkdir(parents=True)
        self.session: Any = Session("june", scratch)
        store = SimpleNamespace(location="results", sweep_ids=lambda: ["may"])
        left = SimpleNamespace(trials=["trial"] if repeats else [])
        fakes: dict[str, Any] = {
            "open_results": lambda *_: store,
            "sweep_lock": lambda *_: nullcontext(),
            "choose_sweep": lambda *_: self.session,
            "first_calls": lambda _: [],
            "_limited": lambda session, *_: session,
            "_seconds": lambda _: 60.0,
            "tell_stopped": lambda *_: self.did.append("told"),
            "warn": lambda _, text: self.did.append(text),
        }
        for name, value in fakes.items():
            monkeypatch.setattr(running, name, value)
        monkeypatch.setattr(OpenSweep, "lacks_anything", lambda _: lacks)
        monkeypatch.setattr(OpenSweep, "repeats", lambda _: left)
        monkeypatch.setattr(OpenSweep, "run_rounds", self._rounds)
        monkeypatch.setattr(OpenSweep, "ended", lambda _, progress: ("ended", progress.stopped))
        monkeypatch.setattr(Ran, "is_complete", complete)
        monkeypatch.setattr(Ran, "stored", ["record"] if stored else [])
        self._ends = ends
        self.place: Any = SimpleNamespace(
            call=lambda *_: self.did.append("called"),
            announce=lambda _, reason, __: self.did.append(reason),
            opened=self._opened,
        )
        request = SimpleNamespace(results="r", codes={"a": 1} if codes else {}, may_skip=may_skip)
        machine = SimpleNamespace(gpus=[])
        self.planned: Any = SimpleNamespace(
            request=request, machine=machine, whole=None, chosen=None
        )

    @contextmanager
    def _opened(self, *_: object) -> Iterator[str]:
        self.did.append("opened")
        yield "run"

    def _rounds(self, _: object, __: float | None) -> Progress:
        if self._ends is not None:
            raise self._ends
        return Progress(stopped="full")

    def run(self) -> Any:
        return run_sweep(self.planned, self.place, Mock(), lambda _: self.did.append("cut"))


@pytest.mark.parametrize(
    ("of", "did", "stopped"),
    [
        ({}, ["called", "a new sweep", "opened", "told"], "full"),
        ({"codes": True}, ["a new sweep", "opened", "told"], "full"),
        ({"may_skip": True}, ["a new sweep", "opened", "told"], "full"),
        ({"lacks": False}, ["a new sweep", "told"], None),
        ({"lacks": False, "repeats": True}, ["a new sweep", "opened", "told"], "full"),
    ],
)
def test_models_are_called_before_a_place_is_opened_if_anything_is_left(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    of: dict[str, Any],
    did: list[str],
    stopped: str | None,
) -> None:
    launch = Launch(monkeypatch, tmp_path, **of)
    assert launch.run() == ("ended", stopped)
    assert launch.did == did
    kept = sorted(folder.name for folder in (tmp_path / "scratch").iterdir())
    assert kept == ["june.hash", "may-shard-1-of-2.hash", "may.hash", "other.lock"]


LOST = "Ray ended early, but every trial was recorded."


@pytest.mark.parametrize(
    ("of", "last", "raises"),
    [
        ({"ends": KeyboardInterrupt()}, "cut", True),
        ({"ends": KeyboardInterrupt(), "complete": True}, "cut", True),
        ({"ends": KeyboardInterrupt(), "stored": False}, "opened", True),
        ({"ends": UnfinishedError("lost")}, "cut", True),
        ({"ends": UnfinishedError("lost"), "complete": True}, LOST, False),
        ({"ends": UnfinishedError("lost"), "complete": True, "repeats": True}, "cut", True),
        ({"ends": AnalysisError("broken")}, "cut", True),
    ],
)
def test_a_launch_that_is_cut_shows_what_is_there_and_one_that_lost_nothing_is_complete(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, of: dict[str, Any], last: str, raises: bool
) -> None:
    launch = Launch(monkeypatch, tmp_path, **of)
    if raises:
        kinds = (KeyboardInterrupt, UnfinishedError)
        with pytest.raises(kinds) as raised:
            launch.run()
        if isinstance(of["ends"], AnalysisError):
            assert "the results became unreadable: broken" in str(raised.value)
    else:
        assert launch.run() == ("ended", None)
    assert launch.did[-1] == last


@pytest.mark.parametrize(
    ("complete", "failed", "code"),
    [
        (True, set[str](), ExitCode.FINE),
        (True, {"cell"}, ExitCode.DOES_NOT_RUN),
        (False, {"cell"}, ExitCode.UNFINISHED),
        (False, set[str](), ExitCode.UNFINISHED),
    ],
)
def test_a_complete_sweep_fails_if_a_cell_never_ran(
    monkeypatch: pytest.MonkeyPatch, complete: bool, failed: set[str], code: ExitCode
) -> None:
    monkeypatch.setattr(Ran, "is_complete", complete)
    monkeypatch.setattr(Ran, "stored", [])
    any_: Any = None
    session: Any = SimpleNamespace(cells_without_ok=lambda _: failed)
    assert Ran(store=any_, session=session, progress=Progress()).exit_code == code


@pytest.mark.parametrize(
    ("stopped", "held", "kept_in", "lines"),
    [
        (None, 3, {}, []),
        ("full", 0, {}, ["\nStopped: full"]),
        ("full", 3, {}, ["\nStopped: full", "3 finished trials could not be stored anywhere"]),
        ("full", 3, {"/shm": 3}, ["\nStopped: full", "3 finished trials are kept in /shm: "]),
        (
            "full",
            6,
            {"/shm": 3, "/home": 2},
            ["\nStopped: full", "3 finished", "2 finished", "1 finished trials could not"],
        ),
    ],
)
def test_records_that_found_no_room_are_named_with_their_folder(
    monkeypatch: pytest.MonkeyPatch,
    stopped: str | None,
    held: int,
    kept_in: dict[str, int],
    lines: list[str],
) -> None:
    said: list[str] = []
    monkeypatch.setattr(running, "say", lambda _, text, *__: said.append(text))
    progress = replace(Progress(), stopped=stopped, held=held, kept_in=kept_in)
    store: Any = SimpleNamespace(location="results")
    tell_stopped(store, progress, Mock())
    assert len(said) == len(lines)
    for text, begins in zip(said, lines, strict=True):
        assert text.startswith(begins)


def test_damaged_files_are_set_aside_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[str] = []
    store = SimpleNamespace(check_writable=lambda: None, set_aside_torn=lambda: ["a", "b"])
    monkeypatch.setattr(running, "open_store", lambda _: store)
    monkeypatch.setattr(running, "warn", lambda _, text: warned.append(text))
    found: Any = open_results("r", Mock())
    assert found is store
    assert [text.rpartition(": ")[2] for text in warned] == ["a", "b"]
