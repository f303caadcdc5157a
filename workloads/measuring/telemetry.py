"""Reads a GPU's clocks, temperature and energy between the timed groups of a trial."""

import math
from collections.abc import Callable, Iterable
from statistics import median
from time import perf_counter
from typing import TypeVar

from cudnn_sweep.workloads.hardware.monitor import GpuReading, Monitor
from cudnn_sweep.workloads.records.measured import GpuTelemetry
from cudnn_sweep.workloads.warnings import WarningName

T = TypeVar("T")

INTERVAL_S = 0.02  # shortest time between two readings
MIN_ENERGY_S = 0.5  # shortest time over which energy is measured
UNSETTLED = 0.05  # largest range of clocks without a warning, as a share of the median
# Throttle reasons that come from settings of the GPU.
CHOSEN_CLOCKS = {"applications_clocks_setting", "display_clock_setting"}
POWER_CAP = "sw_power_cap"  # throttle reason that is normal for a GPU under load
SLOWED = 0.97  # share of the highest clock, below which a power cap leads to a warning


class Telemetry:
    """Readings of a GPU during one trial. Nothing is read if `monitor` is None."""

    def __init__(self, monitor: Monitor | None, *, now: Callable[[], float] = perf_counter) -> None:
        self._monitor = monitor
        self._now = now
        self._readings: list[GpuReading] = []
        self._read_at = -math.inf
        self._began = 0.0
        self._energy_began_mj: int | None = None
        self._loop_s = 0.0
        self._loop_mj: int | None = None

    def know(self, pids: Iterable[int]) -> None:
        if self._monitor is not None:
            self._monitor.know(pids)

    def begin(self, *, energy: bool = True) -> None:
        """Delete earlier readings. Start to measure energy if `energy` is true."""
        self._readings.clear()
        self._read_at = -math.inf
        self._loop_mj = None
        if self._monitor is not None and energy:
            self._energy_began_mj = self._monitor.energy_mj()
        self._began = self._now()

    def note(self) -> None:
        """Take a reading if the last one is old enough. Call this only while nothing is timed."""
        if self._monitor is not None and self._now() - self._read_at >= INTERVAL_S:
            self._readings.append(self._monitor.read())
            self._read_at = self._now()

    def clock_mhz(self) -> int | None:
        return self._monitor.read().sm_clock_mhz if self._monitor is not None else None

    def end(self) -> None:
        self._loop_s = self._now() - self._began
        if self._monitor is None or self._loop_s < MIN_ENERGY_S:
            return
        ended_mj = self._monitor.energy_mj()
        if ended_mj is not None and self._energy_began_mj is not None:
            self._loop_mj = ended_mj - self._energy_began_mj

    def summary(self, iterations: int | None) -> GpuTelemetry:
        """Summarise the readings. `iterations` is the number of steps from `begin` to `end`."""
        if self._monitor is None:
            return GpuTelemetry(warnings=[])
        clocks = _given(reading.sm_clock_mhz for reading in self._readings)
        memory_clocks = _given(reading.memory_clock_mhz for reading in self._readings)
        reasons = _given(reading.throttle_reasons for reading in self._readings)
        return GpuTelemetry(
            telemetry=self._monitor.source,
            telemetry_samples=len(self._readings),
            sm_clock_mhz=median(clocks) if clocks else None,
            sm_clock_low_mhz=min(clocks, default=None),
            sm_clock_high_mhz=max(clocks, default=None),
            memory_clock_mhz=memory_clocks[-1] if memory_clocks else None,
            power_w=None if self._loop_mj is None else self._loop_mj / 1e3 / self._loop_s,
            energy_per_iteration_mj=self._loop_mj / iterations
            if self._loop_mj is not None and iterations
            else None,
            temperature_c=max(_given(r.temperature_c for r in self._readings), default=None),
            throttle_reasons=sorted(set().union(*reasons)) if reasons else None,
            other_processes=max(_given(r.other_processes for r in self._readings), default=None),
            warnings=list(_warnings(self._readings, self._monitor.max_sm_clock_mhz)),
        )


def _warnings(readings: list[GpuReading], max_sm_clock_mhz: int | None) -> Iterable[WarningName]:
    if any(reading.other_processes for reading in readings):
        yield "shared_gpu"
    reasons = set().union(*_given(reading.throttle_reasons for reading in readings))
    if reasons - CHOSEN_CLOCKS - {POWER_CAP}:
        yield "throttled"
    clocks = _given(reading.sm_clock_mhz for reading in readings)
    highest = max_sm_clock_mhz or max(clocks, default=0)
    if POWER_CAP in reasons and clocks and median(clocks) < SLOWED * highest:
        yield "power_capped"
    if clocks and max(clocks) - min(clocks) > UNSETTLED * median(clocks):
        yield "clocks_unsettled"


def _given(values: Iterable[T | None]) -> list[T]:
    return [value for value in values if value is not None]
