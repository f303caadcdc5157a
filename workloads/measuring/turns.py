"""Turns: a process gets a task with the baton, and reports when it passes the baton on.

The processes of a block live side by side on one device, but only one works at a time. The block's leader
decides whose turn it is, and when enough was measured.
"""

import os
from dataclasses import dataclass, field
from typing import Literal, Protocol

Stage = Literal[
    "meet",  # build the step, call each shape cold, and calibrate
    "alone",  # measure and check to the end, as if its block had no other process
    "warm_up",  # run the loop for a while
    "wall",  # time a group of its steps
    "capture",  # capture the CUDA graph whose replays give the device time
    "device_warm_up",
    "device",  # time some replays
    "report",  # send what was measured
    "rest",  # check, and end
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    stage: Stage
    round: int = 0
    stopped: str | None = None
    """Why the previous timing ended: precision or budget."""
    beside: tuple[int, ...] = ()
    """Ids of the block's other processes, which telemetry does not count in `other_processes`."""
    cpus: tuple[int, ...] = ()
    """CPUs to which the turns of the block are confined. If empty, all CPUs are allowed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """What a process reports at the end of its turn."""

    pid: int = field(default_factory=os.getpid)
    alone: str | None = None
    """Why this process cannot take turns. None if it can."""
    free_bytes: int | None = None
    """Device memory that is free after all shapes were called."""
    total_bytes: int | None = None
    one_time_s: float = 0.0
    busy_cpus: float = 0.0
    settled: bool = True
    """Whether the warm-up may end."""
    captured: bool = False
    ms: float | None = None
    """Mean time of an iteration in this turn."""


class Baton(Protocol):
    def pass_on(self, said: Said, /) -> Turn:
        """Report, wait until the baton comes back, and return the next turn."""

    @property
    def waited_s(self) -> float:
        """Seconds for which other processes have had the baton so far."""
