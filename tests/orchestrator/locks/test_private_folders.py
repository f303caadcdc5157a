"""What another user of the machine may plant under the temporary directory, and in shared results."""

import os
import socket
import tempfile
from pathlib import Path

import pytest

from cudnn_sweep.orchestrator.doctor.checks import check_storage
from cudnn_sweep.orchestrator.errors import OrchestratorError, SweepBusyError
from cudnn_sweep.orchestrator.locks import sweep_lock as locks
from cudnn_sweep.orchestrator.locks.private_folder import (
    our_temporary_folder,
    private_folder,
    temporary_path,
)
from cudnn_sweep.orchestrator.locks.sweep_lock import measuring_lock, sweep_lock


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory of everybody's."""
    tmp_path.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(locks, "PREFIX", f"test/{tmp_path}/")
    return tmp_path


def test_our_folder_is_made_for_us_alone(shared: Path) -> None:
    umask = os.umask(0)
    try:
        folder = our_temporary_folder()
    finally:
        os.umask(umask)
    assert folder.parent == shared
    assert folder.stat().st_mode & 0o777 == 0o700
    assert our_temporary_folder() == folder


def test_link_in_its_place_is_refused(shared: Path) -> None:
    theirs = shared / "theirs"
    theirs.mkdir()
    temporary_path().symlink_to(theirs)
    with pytest.raises(OrchestratorError, match=r"cudnn-sweep-\d+ is a link: remove it, or set"):
        our_temporary_folder()
    (compute_caches,) = [c for c in check_storage(str(shared)) if c.name == "compute caches"]
    assert compute_caches.state == "problem"
    assert compute_caches.found.endswith("is a link")


def test_folder_of_another_user_is_refused(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shared / "planted"
    folder.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(OrchestratorError, match=r"belongs to another user \(\d+\)"):
        private_folder(folder)


@pytest.mark.parametrize("mode", [0o1777, 0o775])
def test_folder_that_others_write_to_is_refused(shared: Path, mode: int) -> None:
    folder = shared / "open"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(OrchestratorError, match="can be written by other users"):
        private_folder(folder)


def test_holder_is_written_through_no_link(shared: Path) -> None:
    victim = shared / "victim.txt"
    victim.write_text("precious")
    (shared / ".plan.holder").symlink_to(victim)
    with sweep_lock(str(shared), "plan"):
        holder = shared / ".plan.holder"
        assert not holder.is_symlink() and str(os.getpid()) in holder.read_text()
    assert victim.read_text() == "precious"


def test_one_measures_on_a_device_whatever_the_temporary_directory(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with measuring_lock(["GPU-1"]):
        monkeypatch.setattr(tempfile, "tempdir", str(shared / "other"))
        busy = pytest.raises(SweepBusyError, match=rf"on GPU-1: process {os.getpid()} of \w+ on ")
        with busy, measuring_lock(["GPU-0", "GPU-1"]):
            pass
        with measuring_lock(["GPU-0"]):
            pass
    with measuring_lock(["GPU-1"]):
        pass
    assert list(shared.iterdir()) == []


def test_a_device_that_is_held_by_who_does_not_listen_says_how_to_find_it(shared: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as squatter:
        squatter.bind(f"\0{locks.PREFIX}GPU-1")
        told = rf"does not answer; `sudo ss -xap \| grep {locks.PREFIX}GPU-1` shows the process"
        with pytest.raises(SweepBusyError, match=told), measuring_lock(["GPU-1"]):
            pass
