"""Finds how many CPUs this process may use, from its affinity and its control groups."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

SYSTEM = Path("/sys/fs/cgroup")
OURS = Path("/proc/self/cgroup")


def usable_cpus(system: Path = SYSTEM, ours: Path = OURS) -> int:
    allowed = len(os.sched_getaffinity(0))
    return min([allowed, *map(math.ceil, _limits(system, ours))])


def _limits(system: Path, ours: Path) -> Iterator[float]:
    """Yield the numbers of CPUs that the control groups of this process allow."""
    for line in text_of(ours).splitlines():
        number, names, path = line.split(":", 2)
        files: tuple[str, ...]
        if number == "0":
            top, files = system, ("cpu.max",)
        elif "cpu" in names.split(","):
            top, files = system / "cpu", ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        else:
            continue
        own = Path(path.lstrip("/"))
        for group in (own, *own.parents):
            words = [word for name in files for word in text_of(top / group / name).split()]
            if len(words) == 2 and words[0] not in ("max", "-1"):
                yield int(words[0]) / int(words[1])


def text_of(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
