"""`python janitor.py FOLDER` ends the processes that a local Ray leaves, and removes FOLDER.

Ctrl-C does not reach it in its own Unix session. It imports only the standard library.
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

MARKER = "CUDNN_SWEEP_LOCAL_RAY"  # environment variable of Ray's processes: FOLDER
GRACE_S = 3.0  # Ray's workers need up to 2.5 s to end by themselves
KILL_S = 5.0  # longest wait for killed processes
POLL_S = 0.05
PROC = Path("/proc")  # exists on Linux only


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
    """Wait until standard input closes or the parent process ends."""
    while os.getppid() == parent:
        ready, _, _ = select.select([sys.stdin], [], [], 1)
        if ready and not os.read(sys.stdin.fileno(), 1):
            return


def processes_of(folder: Path) -> Iterator[int]:
    marker = f"{MARKER}={folder}\0".encode()
    for process in PROC.glob("[0-9]*"):
        with suppress(OSError):  # the process has ended, or another user owns it
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
