"""Processes of a launch that do not run any more: stopped by a signal, or stuck in the kernel. See proc(5)."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Stuck:
    pid: int
    state: str

    def __str__(self) -> str:
        command = _read(PROC / str(self.pid) / "cmdline").replace("\0", " ").strip()
        known = (name for part, name in NAMES.items() if part in command)
        name = next(known, None) or command.partition(" ")[0] or "a process that ends"
        return f"{name} (process {self.pid} on {os.uname().nodename})"


class StuckBelow:
    """Watches a process and all that it started. A trial has a limit of its own: it counts once it was killed."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._since: dict[str, tuple[tuple[str, ...], float]] = {}

    def look(self) -> list[Stuck]:
        """Those of which a thread has not run for NO_ANSWER_S, though it does not sleep."""
        now, since = monotonic(), {}
        found: dict[int, Stuck] = {}
        for pid, is_trial in _below(self._root, _children()):
            for thread, mark in _standing_still(pid, killed=is_trial):
                was, began = self._since.get(thread, (mark, now))
                since[thread] = (mark, began if was == mark else now)
                if now - since[thread][1] >= NO_ANSWER_S:
                    found[pid] = Stuck(pid=pid, state=WAYS[mark[0]])
        self._since = since
        return list(found.values())


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for name in filter(str.isdecimal, os.listdir(PROC)):
        words = _read(PROC / name / "stat").rpartition(")")[2].split()
        if words:
            found.setdefault(int(words[1]), []).append(int(name))
    return found


def _below(
    pid: int, children: dict[int, list[int]], trial: bool = False
) -> Iterator[tuple[int, bool]]:
    yield pid, trial
    forks_trials = trial or SERVER in _read(PROC / str(pid) / "cmdline")
    for child in children.get(pid, ()):
        yield from _below(child, children, forks_trials)


def _standing_still(pid: int, *, killed: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Threads that are stopped or wait in the kernel, each with what changes as soon as it runs."""
    with suppress(OSError):
        for thread in os.listdir(PROC / str(pid) / "task"):
            lines = _read(PROC / str(pid) / "task" / thread / "status").splitlines()
            fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            state = fields.get("State", "")[:1]
            pending = int(fields.get("SigPnd", "0"), 16) | int(fields.get("ShdPnd", "0"), 16)
            if state in WAYS and (pending & SIGKILL_PENDING or not killed):
                runs = (text for name, text in fields.items() if name.endswith("ctxt_switches"))
                yield thread, (state, *runs)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # gone meanwhile
        return ""
