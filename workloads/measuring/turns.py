"""Turns: a process gets an order with the baton, and reports when it passes the baton on.

The processes of a block live side by side on one device, and one at a time works. The leader of the block
decides whose turn it is, and when enough was measured.
"""

from dataclasses import dataclass
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
    """The order that comes with the baton."""

    stage: Stage
    round: int = 0
    stopped: str | None = None
    """Why the previous timing ended: precision or budget."""
    beside: tuple[int, ...] = ()
    """Ids of the block's other processes, which telemetry counts as ours."""
    cpus: tuple[int, ...] = ()
    """CPUs of the block's turns; empty: all CPUs allowed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """The report of a turn."""

    pid: int
    alone: str | None = None
    """Why this process cannot take turns."""
    free_bytes: int | None = None
    """Device memory that is free after all shapes were called."""
    total_bytes: int | None = None
    """All memory of the device, free or not."""
    one_time_s: float = 0.0
    """Seconds of its one-time costs."""
    busy_cpus: float = 0.0
    """How many CPUs its loop keeps busy."""
    settled: bool = True
    """Whether the warm-up may end."""
    captured: bool = False
    """Whether there is a graph to replay."""
    ms: float | None = None
    """Time of an iteration in this turn."""


class Baton(Protocol):
    def pass_on(self, said: Said, /) -> Turn:
        """Report, wait until the baton comes back, and return the next order."""

    @property
    def waited_s(self) -> float:
        """Seconds that the baton was with others."""
