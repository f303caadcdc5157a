"""Whatever ends the block or the process, no process and no file of its Ray is left."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import ray

from cudnn_sweep.cluster.local import janitor
from cudnn_sweep.cluster.local.local_ray import (
    local_ray,
    probe_ray,
)
from tests import processes

pytestmark = pytest.mark.measuring


@pytest.mark.slow
def test_nothing_is_left_after_an_exception() -> None:
    before, handler = dict(os.environ), signal.getsignal(signal.SIGTERM)
    with pytest.raises(ZeroDivisionError), local_ray(slots=1) as folder:
        ray.get(ray.remote(lambda: os.getpid()).remote())
        raise ZeroDivisionError
    assert not folder.exists()
    others = set(processes.every()) - {os.getpid()}
    assert not [processes.command(pid) for pid in others if _uses(pid, folder)]
    assert not ray.is_initialized()
    assert (dict(os.environ), signal.getsignal(signal.SIGTERM)) == (before, handler)


def _uses(pid: int, folder: Path) -> bool:
    """Do not rely on what our own clean-up looks at: any mention counts, and any open file."""
    words = [processes.read(pid, each).decode(errors="replace") for each in ("cmdline", "environ")]
    return any(str(folder) in word for word in (*words, *processes.links(pid, "fd/*")))


@pytest.mark.slow
def test_a_probe_runs_a_task_and_its_ray_is_gone() -> None:
    assert probe_ray() > 0
    assert not ray.is_initialized()


def test_janitor_ends_what_outlives_its_grace(tmp_path: Path) -> None:
    stray = subprocess.Popen(["sleep", "600"], env={janitor.MARKER: str(tmp_path)})
    code = f"""
from pathlib import Path
from cudnn_sweep.cluster.local import janitor
janitor.GRACE_S = 0.2
janitor.main(Path({str(tmp_path)!r}))
"""
    try:
        subprocess.run([sys.executable, "-c", code], check=True, stdin=subprocess.DEVNULL)
        assert stray.wait(1) == -signal.SIGKILL
        assert not tmp_path.exists()
    finally:
        stray.kill()
        stray.wait()


def test_a_ray_that_never_starts_ends_its_process() -> None:
    code = """
import time
import ray
from cudnn_sweep.cluster.local import local_ray
local_ray.START_S = 0.1
ray.init = lambda **_: time.sleep(30)
with local_ray.local_ray(slots=1):
    pass
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert ended.returncode == 1
    assert ended.stderr == b"sweep: Ray does not start on this machine within 0.1 s\n"
