"""What a Ray leaves that was killed together with its janitor is ended and removed by the next."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cudnn_sweep.cluster.local import janitor, local_ray
from tests import processes

DRIVER = """
import sys
import time
from pathlib import Path
from cudnn_sweep.cluster.local import local_ray
local_ray._parent = lambda: Path(sys.argv[1])
with local_ray._folder() as folder:
    print(folder, flush=True)
    time.sleep(600)
"""


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    ends = time.monotonic() + 5
    while processes.read(pid, "cmdline"):
        assert time.monotonic() < ends
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("janitor_lives", [True, False])
def test_next_ray_removes_what_a_killed_one_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, janitor_lives: bool
) -> None:
    monkeypatch.setattr(local_ray, "_parent", lambda: tmp_path)
    command = [sys.executable, "-c", DRIVER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        left = Path(driver.stdout.readline().strip())
        with local_ray._folder() as other:
            assert left.exists() and other != left, "it is held"
        (cleaner,) = [
            pid for pid in processes.every() if str(left).encode() in processes.read(pid, "cmdline")
        ]
        if janitor_lives:
            os.kill(cleaner, signal.SIGSTOP)
        else:
            _kill(cleaner)
        driver.kill()
    agent = subprocess.Popen(["sleep", "600"], env={janitor.MARKER: str(left)})
    try:
        with local_ray._folder() as new:
            assert new.exists()
            assert left.exists() is janitor_lives
        if janitor_lives:
            assert agent.poll() is None
            os.kill(cleaner, signal.SIGCONT)
        assert agent.wait(10) == -signal.SIGKILL
    finally:
        agent.kill()
        agent.wait()
    ends = time.monotonic() + 10
    while list(tmp_path.iterdir()):
        assert time.monotonic() < ends
        time.sleep(0.05)
