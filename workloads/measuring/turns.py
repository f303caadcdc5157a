"""Turns of the processes of a block, which share one device.

Only the process that has the baton works. It gets a task (`Turn`) and reports back (`Said`).
"""

import os
from dataclasses import dataclass, field
from typing import Literal, Protocol

Stage = Literal[
    "meet",  # build the step, call each shape for the first time, and calibrate
    "alone",  # measure and check without taking turns
    "warm_up",  # run the loop without timing it
    "wall",  # time a group of steps
    "capture",  # capture the loop in a CUDA graph, to measure device time
    "device_warm_up",  # replay the graph without timing it
    "device",  # time replays of the graph
    "report",  # send the results
    "rest",  # run the untimed checks and end
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    stage: Stage
    round: int = 0
    stopped: str | None = None
    """Reason why the previous timing ended: `precision` or `budget`."""
    beside: tuple[int, ...] = ()
    """Process ids of the other processes of the block."""
    cpus: tuple[int, ...] = ()
    """CPUs on which the processes take turns. If this is empty, all CPUs are allowed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    pid: int = field(default_factory=os.getpid)
    alone: str | None = None
    """Reason why this process cannot take turns, or None if it can."""
    free_bytes: int | None = None
    """Free memory of the device after all shapes were called."""
    total_bytes: int | None = None
    one_time_s: float = 0.0
    busy_cpus: float = 0.0
    settled: bool = True
    """Whether the warm-up may end."""
    captured: bool = False
    ms: float | None = None
    """Mean time of a step in this turn."""


class Baton(Protocol):
    def pass_on(self, said: Said, /) -> Turn:
        """Report `said`, wait for the baton, and return the next turn."""

    @property
    def waited_s(self) -> float:
        """Seconds during which other processes have had the baton."""
