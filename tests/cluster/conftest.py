"""Child processes that hold a Ray, and what is left of a Ray."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# Starts a Ray, leaves a process in one of its workers, says where it is, and waits.
HOLD_A_RAY = """
import subprocess, time
import ray
from cudnn_sweep.cluster.local.local_ray import local_ray

@ray.remote
class Worker:
    def start_a_child(self):
        self.child = subprocess.Popen(["sleep", "600"])
        return self.child.pid

with local_ray(slots=1) as ours:
    worker = Worker.remote()
    ray.get(worker.start_a_child.remote())
    print(ours.folder, ours.address, flush=True)
    time.sleep(600)
"""

Holder = tuple[subprocess.Popen[str], Path, str]


HOLDERS = 3  # tests that need one each


@pytest.fixture(scope="module")
def held_rays() -> Iterator[Iterator[Holder]]:
    """Other processes that hold a Ray of their own each: the process, Ray's folder and address. They start
    at once.
    """
    command = [sys.executable, "-c", HOLD_A_RAY]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        for _ in range(HOLDERS)
    ]
    yield (_told(process) for process in processes)
    for process in processes:
        process.kill()
        process.communicate()


def _told(process: subprocess.Popen[str]) -> Holder:
    assert process.stdout is not None
    folder, address = process.stdout.readline().split()
    return process, Path(folder), address


@pytest.fixture
def wait_until_gone() -> Callable[[Path, float], list[str]]:
    """Wait until neither a folder nor a process that uses it is left; return what is."""

    def wait(folder: Path, timeout_s: float) -> list[str]:
        end = time.monotonic() + timeout_s
        while (left := _left_of(folder)) and time.monotonic() < end:
            time.sleep(0.1)
        return left

    return wait


def _left_of(folder: Path) -> list[str]:
    processes = [
        f"{process.name}: {_read(process / 'cmdline')[:80]}"
        for process in Path("/proc").glob("[0-9]*")
        if _uses(process, str(folder))
    ]
    return processes + ([str(folder)] if folder.exists() else [])


def _uses(process: Path, folder: str) -> bool:
    """Do not rely on what our own clean-up looks at: any mention counts, and any open file."""
    try:
        files = [str(file.readlink()) for file in (process / "fd").iterdir()]
    except OSError:
        files = []
    words = [_read(process / "cmdline"), _read(process / "environ"), *files]
    return any(folder in word for word in words)


def _read(file: Path) -> str:
    try:
        return file.read_bytes().decode(errors="replace").replace("\0", " ")
    except OSError:
        return ""
