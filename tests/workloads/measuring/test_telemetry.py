"""What is made of a GPU's readings beside a measurement."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count

import pytest

from cudnn_sweep.workloads.hardware.monitor import CALM, FakeMonitor, GpuReading, MonitorKind
from cudnn_sweep.workloads.hardware.nvml import open_monitor
from cudnn_sweep.workloads.measuring.telemetry import (
    CHOSEN_CLOCKS,
    INTERVAL_S,
    MIN_ENERGY_S,
    Telemetry,
)
from cudnn_sweep.workloads.records.measured import GpuTelemetry
from cudnn_sweep.workloads.warnings import WarningName


class Scripted:
    """A monitor that says what a test has it say, and counts how often it is asked."""

    source: MonitorKind = "nvml"
    max_sm_clock_mhz: int | None = 1980

    def __init__(self, *readings: GpuReading, energies_mj: tuple[int | None, ...] = ()) -> None:
        self.readings, self.energies_mj = iter(readings), iter(energies_mj)
        self.asked = 0

    def read(self) -> GpuReading:
        self.asked += 1
        return next(self.readings, CALM)

    def know(self, pids: Iterable[int], /) -> None:
        self.known = tuple(pids)

    def energy_mj(self) -> int | None:
        return next(self.energies_mj, None)


def ticking(seconds: float) -> Callable[[], float]:
    """A clock that is looked at so far apart."""
    ticks = count()
    return lambda: next(ticks) * seconds


def watched(monitor: Scripted | FakeMonitor | None, *, notes: int = 4) -> GpuTelemetry:
    telemetry = Telemetry(monitor, now=ticking(1.0))
    telemetry.begin()
    for _ in range(notes):
        telemetry.note()
    telemetry.end()
    return telemetry.summary(10)


@pytest.mark.parametrize(
    ("fake", "warnings"),
    [
        ("fake_calm", []),
        ("fake_shared", ["shared_gpu"]),
        ("fake_throttled", ["throttled"]),
        ("fake_power_capped", ["power_capped"]),
        ("fake_unsettled", ["clocks_unsettled"]),
        ("fake_slice", []),
    ],
)
def test_each_fake_has_its_warning(fake: MonitorKind, warnings: list[str]) -> None:
    monitor = open_monitor(fake, None)
    assert isinstance(monitor, FakeMonitor)
    found = watched(monitor)
    assert found.warnings == warnings
    assert found.telemetry == fake
    assert watched(FakeMonitor(fake)) == found


def test_readings_are_summed_up() -> None:
    slow = replace(CALM, sm_clock_mhz=1950, temperature_c=50, throttle_reasons=("sync_boost",))
    shared = replace(CALM, other_processes=2, memory_clock_mhz=2600)
    found = watched(Scripted(CALM, slow, shared, energies_mj=(5_000, 2_709_000)), notes=3)
    seconds = 7.0  # looks at the clock from `begin` to `end`
    assert found == GpuTelemetry(
        telemetry="nvml",
        telemetry_samples=3,
        sm_clock_mhz=1980,
        sm_clock_low_mhz=1950,
        sm_clock_high_mhz=1980,
        memory_clock_mhz=2600,
        power_w=2704 / seconds,
        energy_per_iteration_mj=270_400,
        temperature_c=50,
        throttle_reasons=["sync_boost"],
        other_processes=2,
        warnings=["shared_gpu", "throttled"],
    )


def test_what_is_not_said_stays_unknown() -> None:
    found = watched(Scripted(*[GpuReading()] * 4))
    assert found == GpuTelemetry(telemetry="nvml", telemetry_samples=4, warnings=[])
    assert watched(None) == GpuTelemetry(warnings=[])


@pytest.mark.parametrize(
    ("clock_mhz", "reasons"), [(1980, sorted(CHOSEN_CLOCKS)), (1965, ["sw_power_cap"])]
)
def test_clocks_that_somebody_chose_or_a_cap_hardly_lowers_are_no_throttling(
    clock_mhz: int, reasons: list[str]
) -> None:
    reading = replace(CALM, sm_clock_mhz=clock_mhz, throttle_reasons=tuple(reasons))
    found = watched(Scripted(*[reading] * 4))
    assert (found.throttle_reasons, found.warnings) == (reasons, [])


def test_readings_keep_their_interval() -> None:
    monitor = Scripted()
    telemetry = Telemetry(monitor, now=ticking(INTERVAL_S / 10))
    telemetry.begin()
    for _ in range(100):
        telemetry.note()
    looks = 100 + 12  # at the clock: each note one, each reading another
    assert 1 < monitor.asked <= looks / 10


def test_the_warm_up_is_forgotten() -> None:
    telemetry = Telemetry(FakeMonitor("fake_throttled"), now=ticking(1.0))
    assert telemetry.clock_mhz() == 1980
    telemetry.begin()
    assert telemetry.summary(None).telemetry_samples == 0
    assert telemetry.summary(None).warnings == []


def test_energy_of_a_short_loop_is_unknown() -> None:
    telemetry = Telemetry(FakeMonitor("fake_calm"), now=ticking(0.4))
    telemetry.begin()
    telemetry.end()
    found = telemetry.summary(3)
    assert (found.power_w, found.energy_per_iteration_mj) == (None, None)


@pytest.mark.parametrize(("low_mhz", "warnings"), [(1901, []), (1899, ["clocks_unsettled"])])
def test_a_clock_is_unsettled_from_a_twentieth_of_its_median(
    low_mhz: int, warnings: list[WarningName]
) -> None:
    clocks = (low_mhz, 2000, 2000, 2000)
    readings = [GpuReading(sm_clock_mhz=clock) for clock in clocks]
    assert watched(Scripted(*readings)).warnings == warnings


@pytest.mark.parametrize(("clock_mhz", "warnings"), [(1921, []), (1920, ["power_capped"])])
def test_a_power_cap_counts_from_three_percent_below_the_highest_clock(
    clock_mhz: int, warnings: list[WarningName]
) -> None:
    capped = GpuReading(sm_clock_mhz=clock_mhz, throttle_reasons=("sw_power_cap",))
    assert watched(Scripted(*[capped] * 4)).warnings == warnings


def test_a_reading_is_fresh_for_an_interval_and_energy_is_known_from_half_a_second() -> None:
    moments = iter([0.0, 0.0, 0.0, INTERVAL_S, INTERVAL_S, 1.5 * INTERVAL_S, MIN_ENERGY_S])
    monitor = Scripted(energies_mj=(1_000, 4_000))
    telemetry = Telemetry(monitor, now=lambda: next(moments))
    telemetry.begin()  # at 0
    for _ in range(3):  # the second when the first is just no longer fresh, the third too early
        telemetry.note()
    telemetry.end()
    found = telemetry.summary(3)
    assert (monitor.asked, found.telemetry_samples) == (2, 2)
    assert (found.power_w, found.energy_per_iteration_mj) == (3.0 / MIN_ENERGY_S, 1_000.0)
    assert telemetry.summary(None).energy_per_iteration_mj is None


def test_processes_in_turns_have_no_energy_of_their_own() -> None:
    telemetry = Telemetry(Scripted(energies_mj=(5,)), now=ticking(1.0))
    telemetry.begin(energy=False)
    telemetry.end()
    assert telemetry.summary(3).power_w is None


@pytest.mark.parametrize(
    ("reasons", "others", "warnings"),
    [
        ((), 0, []),
        (("display_clock_setting",), 0, []),
        (("hw_slowdown", "sw_power_cap"), 0, ["throttled", "power_capped"]),
        (("hw_slowdown",), 1, ["shared_gpu", "throttled"]),
    ],
)
def test_warnings_come_from_the_reasons_of_any_reading(
    reasons: tuple[str, ...], others: int, warnings: list[WarningName]
) -> None:
    slow = replace(CALM, sm_clock_mhz=1700, throttle_reasons=reasons, other_processes=others)
    readings = [replace(slow, throttle_reasons=(), other_processes=0), *[slow] * 3]
    assert watched(Scripted(*readings)).warnings == warnings
    unknown = Scripted(*readings)
    unknown.max_sm_clock_mhz = None
    found = watched(unknown).warnings
    assert found == [name for name in warnings if name != "power_capped"], (
        "no higher clock is known"
    )
