"""Processes of this machine, by what /proc says of them: nothing, where one has ended."""

import os
from pathlib import Path


def every() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def read(pid: int, file: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""


def command(pid: int) -> str:
    return read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()


def links(pid: int, files: str) -> set[str]:
    """Where they lead: `cwd`, or `fd/*`."""
    found = set()
    for link in Path(f"/proc/{pid}").glob(files):
        try:
            found.add(os.readlink(link))
        except OSError:
            continue
    return found


def children(pid: int) -> list[int]:
    return [int(each) for each in read(pid, f"task/{pid}/children").split()]


def below(pid: int) -> set[int]:
    """It, and all that it started."""
    own = {pid} if read(pid, "cmdline") else set()
    return own.union(*map(below, children(pid)))
