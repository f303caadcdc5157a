"""Who holds a results location, and which error a lock that cannot be made is."""

import errno
import json
import os
import socket
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from cudnn_sweep.orchestrator.errors import OrchestratorError, SweepBusyError
from cudnn_sweep.orchestrator.locks import sweep_lock as locks
from cudnn_sweep.orchestrator.locks.sweep_lock import held_by, holder_of, sweep_lock

HERE = socket.gethostname()
GONE = 2**22 + 1  # above Linux's largest process id


def holder(folder: Path, pid: int, host: str) -> None:
    note = {"pid": pid, "host": host, "since": "2026-03-01T00:00:00+00:00"}
    (folder / ".plan.holder").write_text(json.dumps(note))


@pytest.mark.parametrize(
    ("is_alive", "is_here", "is_held"),
    [(True, True, True), (False, True, False), (False, False, True), (True, False, True)],
)
def test_a_holder_of_this_host_must_be_alive(
    tmp_path: Path, is_alive: bool, is_here: bool, is_held: bool
) -> None:
    pid, host = os.getpid() if is_alive else GONE, HERE if is_here else "elsewhere"
    assert holder_of(str(tmp_path)) is None
    holder(tmp_path, pid, host)
    named = f"process {pid} on {host}, since 2026-03-01T00:00:00+00:00"
    assert holder_of(str(tmp_path)) == (named if is_held else None)


def test_a_holder_that_has_just_begun_has_no_note_yet(tmp_path: Path) -> None:
    (tmp_path / ".plan.holder").touch()
    assert holder_of(str(tmp_path)) == "a launch that has just begun"


@pytest.mark.parametrize("is_there", [True, False])
def test_a_lock_that_is_held_is_busy_and_one_that_cannot_be_made_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    def held(*_: object, **__: object) -> None:
        raise Timeout("")

    if is_there:
        (tmp_path / ".plan.lock").touch()
    monkeypatch.setattr(FileLock, "acquire", held)
    expected = SweepBusyError if is_there else OrchestratorError
    with pytest.raises(OrchestratorError) as raised, sweep_lock(str(tmp_path), "plan"):
        pass
    assert raised.type is expected
    assert ("this sweep is in progress" in str(raised.value)) is is_there


@pytest.mark.parametrize(
    ("error", "why"),
    [(OSError(errno.ENOSPC, "no space"), "no space"), (OSError("strange"), "strange")],
)
def test_the_systems_reason_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, why: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(FileLock, "acquire", fails)
    message = f"no lock can be made in .*: {why}$"
    with pytest.raises(OrchestratorError, match=message), sweep_lock(str(tmp_path), "plan"):
        pass


def test_the_holder_of_a_device_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_holder", lambda _: None)
    assert held_by("GPU-1") is None
    monkeypatch.setattr(locks, "_holder", lambda _: "process 7")
    told = held_by("GPU-1")
    assert told is not None
    assert "GPU-1" in told and "process 7" in told
