"""Processes of a launch that do not run any more, stopped by a signal or stuck in the kernel: see proc(5)."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

NO_ANSWER_S = 60.0  # a network disk whose server starts again is often back by then
LOOK_S = 10.0  # a look takes some milliseconds of a core that may be measuring
SERVER = "cudnn_sweep.orchestrator.process.server"
NAMES = {  # by what the command line holds
    "ray::GroupRecorder": "the recorder",
    "ray::SlotGate": "what starts all slots at once",
    "ray::ResourceTrainable": "a slot",
    "raylet/raylet": "Ray's raylet",
    "gcs_server": "Ray's GCS",
    SERVER: "the fork server",
}
WAYS = {"T": "stopped by a signal", "D": "stuck in the kernel"}
SIGKILL_PENDING = 1 << 8
PROC = Path("/proc")


class StuckBelow:
    """Watches a process and all that it started. A trial has a limit of its own: it counts once it was killed."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._since: dict[tuple[str, ...], float] = {}

    def look(self) -> dict[int, str]:
        """Those of which a thread has not run for NO_ANSWER_S, though it does not sleep: in what way."""
        now, before, self._since = monotonic(), self._since, {}
        found = {}
        for pid, is_trial in _below(self._root):
            for mark in _standing_still(pid, killed=is_trial):
                self._since[mark] = before.get(mark, now)
                if now - self._since[mark] >= NO_ANSWER_S:
                    found[pid] = WAYS[mark[0]]
        return found


def name_of(pid: int) -> str:
    command = _read(f"{pid}/cmdline").replace("\0", " ")
    known = [name for part, name in NAMES.items() if part in command]
    return f"{(known or [command[:40]])[0]} (process {pid} on {os.uname().nodename})"


def _below(root: int) -> Iterator[tuple[int, bool]]:
    """All, and whether a fork server forked them."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdecimal, os.listdir(PROC)):
        if words := _read(f"{name}/stat").rpartition(")")[2].split():
            children.setdefault(int(words[1]), []).append(int(name))
    left = [(root, False)]
    while left:
        pid, is_trial = left.pop()
        yield pid, is_trial
        forks = is_trial or SERVER in _read(f"{pid}/cmdline")
        left += [(child, forks) for child in children.get(pid, ())]


def _standing_still(pid: int, *, killed: bool) -> Iterator[tuple[str, ...]]:
    """A mark for each thread that is stopped or waits in the kernel: another one as soon as it has run."""
    with suppress(OSError):
        for thread in os.listdir(PROC / f"{pid}/task"):
            lines = _read(f"{pid}/task/{thread}/status").splitlines()
            fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            state = fields.get("State", "")[:1]
            pending = int(fields.get("SigPnd", "0"), 16) | int(fields.get("ShdPnd", "0"), 16)
            if state in WAYS and (pending & SIGKILL_PENDING or not killed):
                yield state, thread, *(fields[name] for name in fields if "ctxt_switches" in name)


def _read(file: str) -> str:
    try:
        return (PROC / file).read_text(errors="replace")
    except OSError:  # gone meanwhile
        return ""
