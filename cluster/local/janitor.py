"""`python janitor.py FOLDER` ends a local Ray's leftover processes, then removes FOLDER.

`local_ray` starts the janitor in a Unix session of its own, so that no Ctrl-C reaches it. The
janitor imports only the standard library. It waits until its input closes, which happens if the
sweep ends or dies. Without a janitor, a Ray whose driver was killed would leave all its files, and
two of its agents would run on (in Ray 2.60 for over 40 s).
"""

import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MARKER = "CUDNN_SWEEP_LOCAL_RAY"  # variable with FOLDER in Ray's processes and their descendants
GRACE_S = 3.0  # Ray's workers end by themselves up to 2.5 s after a driver that was killed
KILL_S = 5.0  # a process that ignores SIGKILL for so long is stuck in the kernel
POLL_S = 0.05
PROC = Path("/proc")  # on Linux only; elsewhere Ray's own reaper must suffice


def main(folder: Path) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wait_for_the_end(os.getppid())
    grace_end = time.monotonic() + GRACE_S
    while (left := list(processes_of(folder))) and time.monotonic() < grace_end + KILL_S:
        if time.monotonic() > grace_end:
            for pid in left:
                kill(pid)
        time.sleep(POLL_S)
    shutil.rmtree(folder, ignore_errors=True)


def wait_for_the_end(parent: int) -> None:
    """Wait until our input closes or our parent ends. Its forks may keep the input open longer."""
    while os.getppid() == parent:
        ready, _, _ = select.select([sys.stdin], [], [], 1)
        if ready and not os.read(sys.stdin.fileno(), 1):
            return


def processes_of(folder: Path) -> Iterator[int]:
    """Yield the ids of the processes of the folder's Ray.

    Most have MARKER in their environment. Agents overwrite MARKER, but keep files in `folder` open.
    """
    marker = f"{MARKER}={folder}\0".encode()
    for process in PROC.glob("[0-9]*"):
        with suppress(OSError):  # gone meanwhile, or another user's
            if marker in (process / "environ").read_bytes() or is_agent(process, folder):
                yield int(process.name)


def is_agent(process: Path, folder: Path) -> bool:
    if not (process / "cmdline").read_bytes().startswith(b"ray::"):
        return False
    return any(file.readlink().is_relative_to(folder) for file in (process / "fd").iterdir())


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
