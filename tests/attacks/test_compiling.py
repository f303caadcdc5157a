"""Launches whose trials compile under attack: what a kill or a full disk leaves of a compiler and its caches."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests import processes
from tests.attacks.test_launches import Launch, begun, kill, left_behind, prepare
from tests.makers import Need

pytestmark = [pytest.mark.measuring, pytest.mark.long, pytest.mark.timeout(900)]

LAUNCH_FILE = """
metadata:
  sweep:
    configs: [{}, {execution: compile}]
    replicates: 1
    measure: {warmup_s: 0, steady_budget_s: 0.02, calibrate: false, reference_replicates: 0, logged_replicates: 0}
    cells:
      - workload: nets.py:Net
        input: 2x3x16x16
        direction: inference
        model: {arguments: {in_channels: 3, out_channels: 4, kernel_size: 3}}
"""
NET = """
from torch import nn
class Net(nn.Conv2d):
    def forward(self, x):
        return super().forward(x).relu().square()
"""


def prepared(folder: Path) -> Path:
    prepare(folder, LAUNCH_FILE)
    (folder / "nets.py").write_text(NET)
    return folder


def compilers(launch: Launch) -> list[int]:
    return [pid for pid in launch.pids() if "cc1plus" in processes.command(pid).partition(" ")[0]]


def compiling_trial(launch: Launch) -> int:
    """Wait until a trial compiles, and return its process."""
    while not (found := compilers(launch)):
        assert launch.process.poll() is None, launch.said()
        time.sleep(0.02)
    (group,) = {os.getpgid(pid) for pid in found}
    return group


def kept(folder: Path) -> list[Path]:
    """Files in the launch's temporary folder, below all that Ray and we make there."""
    return [path for path in (folder / "tmp").resolve().rglob("*") if not path.is_dir()]


def messages(folder: Path) -> dict[str, str | None]:
    (sweep,) = (folder / "results").glob("sweep=*")
    rows = [row for part in sweep.rglob("*.parquet") for row in pq.read_table(part).to_pylist()]
    return {row["status"]: row["message"] for row in rows if row["execution"] == "compile"}


def test_a_killed_trial_leaves_no_compiler_and_no_cache(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "trial")
    with begun(folder) as launch:
        trial = compiling_trial(launch)
        kill(trial)
        ends = time.monotonic() + 10
        while compilers(launch) and time.monotonic() < ends:
            time.sleep(0.1)
        assert not compilers(launch)
        launch.wait()
        assert not left_behind(launch)
    assert set(messages(folder)) == {"killed"}
    assert kept(folder) == []


@pytest.mark.parametrize("target", ["shell's process", "everything"])
def test_a_killed_launch_leaves_no_compiler_and_the_next_one_no_cache(
    tmp_path: Path, target: str, attempts: Callable[[int, int], int]
) -> None:
    for number in range(attempts(1, 3)):
        folder = prepared(tmp_path / f"{number}")
        with begun(folder) as launch:
            compiling_trial(launch)
            time.sleep(0.5 * number)
            janitor = set(launch.role("janitor"))  # it is there to be left
            targets = launch.pids() - janitor if target == "everything" else {launch.process.pid}
            for pid in targets:
                kill(pid)
            launch.process.wait()
            assert not left_behind(launch)
        with begun(folder) as launch:
            assert launch.wait() == 0, launch.said()
            assert not left_behind(launch)
        assert set(messages(folder)) == {"ok"}
        assert kept(folder) == []


def test_a_full_disk_in_the_compute_cache_is_a_message_that_names_the_folder(
    tmp_path: Path, need: Need
) -> None:
    need(os.geteuid() == 0, "root, to mount a small tmpfs")
    folder = prepared(tmp_path / "full")
    ours = (folder / "tmp").resolve() / f"cudnn-sweep-{os.getuid()}"
    scratch = ours / "scratch"
    scratch.mkdir(parents=True)
    ours.chmod(0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(scratch)]
    need(subprocess.run(mount, capture_output=True, check=False).returncode == 0, "mount")
    try:
        with begun(folder) as launch:
            launch.wait()
            said = launch.said()
    finally:
        subprocess.run(["umount", str(scratch)], check=True)
    ((status, message),) = messages(folder).items()
    assert status == "error" and message is not None
    assert message.startswith(f"execution compile: {scratch}/"), message
    assert "No space left on device: free some space" in message
    assert message.splitlines()[0] in " ".join(said.split()), said
