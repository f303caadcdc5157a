"""Monitors of the clocks, temperature and processes of a GPU."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Literal, Protocol

MonitorKind = Literal[
    "nvml",
    "off",
    "fake_calm",
    "fake_shared",
    "fake_throttled",
    "fake_power_capped",
    "fake_unsettled",
    "fake_slice",
]
FAKE_ENERGY_MJ = 100_000  # energy that is used between two readings


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuReading:
    """One reading of a GPU. A field is None if its value is unknown."""

    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    throttle_reasons: tuple[str, ...] | None = None
    other_processes: int | None = None
    """Number of other processes that compute on the GPU."""


class Monitor(Protocol):
    source: MonitorKind
    max_sm_clock_mhz: int | None

    def read(self) -> GpuReading: ...

    def know(self, pids: Iterable[int], /) -> None:
        """Do not count the processes `pids` and this process as other processes."""

    def energy_mj(self) -> int | None:
        """Return the energy in mJ that the GPU has used so far, or None if it is unknown."""


CALM = GpuReading(
    sm_clock_mhz=1980,
    memory_clock_mhz=2619,
    temperature_c=45,
    throttle_reasons=(),
    other_processes=0,
)
SCRIPTS: dict[MonitorKind, tuple[GpuReading, ...]] = {
    "fake_calm": (CALM, replace(CALM, sm_clock_mhz=1965)),
    "fake_shared": (replace(CALM, other_processes=1),),
    "fake_throttled": (replace(CALM, throttle_reasons=("hw_thermal_slowdown",)),),
    "fake_power_capped": (
        replace(CALM, sm_clock_mhz=1755, throttle_reasons=("sw_power_cap",)),
        replace(CALM, sm_clock_mhz=1740, throttle_reasons=("sw_power_cap",)),
    ),
    "fake_unsettled": (CALM, replace(CALM, sm_clock_mhz=1200)),
    "fake_slice": (GpuReading(other_processes=0),),
}


class FakeMonitor:
    """A monitor that needs no GPU. It repeats the readings of its entry in SCRIPTS."""

    def __init__(self, source: MonitorKind) -> None:
        self.source = source
        self._whole = source != "fake_slice"
        self.max_sm_clock_mhz = CALM.sm_clock_mhz if self._whole else None
        self._readings = cycle(SCRIPTS[source])
        self._energy_mj = 0

    def read(self) -> GpuReading:
        return next(self._readings)

    def know(self, pids: Iterable[int], /) -> None:
        """Do nothing, because the readings are fixed."""

    def energy_mj(self) -> int | None:
        self._energy_mj += FAKE_ENERGY_MJ
        return self._energy_mj if self._whole else None
