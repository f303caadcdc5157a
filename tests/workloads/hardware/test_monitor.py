"""What is read of a GPU beside a measurement, and what is made of it."""

import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any, get_args

import pynvml
import pytest
import torch

from cudnn_sweep.workloads.hardware.monitor import (
    CALM,
    FakeMonitor,
    GpuReading,
    MonitorKind,
)
from cudnn_sweep.workloads.hardware.nvml import THROTTLE_REASONS, NvmlGpu, NvmlMonitor, open_monitor
from cudnn_sweep.workloads.measuring.telemetry import CHOSEN_CLOCKS, INTERVAL_S, Telemetry
from cudnn_sweep.workloads.records.measured import GpuTelemetry
from cudnn_sweep.workloads.warnings import ADVICE, WarningName
from tests.workloads.hardware.conftest import CLOCKS_MHZ, OURS, THEIRS

SPARE = 12


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


def test_every_warning_says_what_to_do() -> None:
    assert set(ADVICE) == set(get_args(WarningName))


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


def test_reasons_are_those_of_nvml() -> None:
    for bit, name in THROTTLE_REASONS.items():
        camel = name.title().replace("_", "")
        assert getattr(pynvml, f"nvmlClocksThrottleReason{camel}") == bit


def read(*our_pids: int) -> GpuReading:
    return NvmlMonitor(NvmlGpu("GPU-cc"), our_pids).read()


def test_nvml_is_read(nvml: dict[str, Any]) -> None:
    nvml["DeviceGetCurrentClocksEventReasons"] = lambda _: 0x1 | 0x4 | 0x40
    assert read(OURS) == GpuReading(
        sm_clock_mhz=CLOCKS_MHZ["GPU-cc"],
        memory_clock_mhz=CLOCKS_MHZ["GPU-cc"],
        temperature_c=40,
        throttle_reasons=("sw_power_cap", "hw_thermal_slowdown"),
        other_processes=1,
    )
    monitor = open_monitor("nvml", "GPU-cc")
    assert monitor is not None
    assert monitor.energy_mj() == 7


def test_without_nvml_or_gpu_there_is_no_monitor(nvml: dict[str, Any]) -> None:
    assert open_monitor("off", "GPU-cc") is None
    assert open_monitor("nvml", None) is None
    nvml["Init"] = None
    assert open_monitor("nvml", "GPU-cc") is None


def test_a_missing_answer_is_none(nvml: dict[str, Any]) -> None:
    for name in nvml.keys() - {"Init", "DeviceGetHandleByUUID"}:
        nvml[name] = None
    assert read(OURS) == GpuReading()
    assert NvmlMonitor(NvmlGpu("GPU-cc")).energy_mj() is None


def test_an_older_driver_is_asked_by_the_older_name(
    nvml: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml["DeviceGetCurrentClocksEventReasons"] = None
    assert read().throttle_reasons == ("applications_clocks_setting",)
    monkeypatch.delattr(pynvml, "nvmlDeviceGetCurrentClocksEventReasons")
    assert read().throttle_reasons == ("applications_clocks_setting",)


@pytest.mark.parametrize(
    ("listed", "ours", "others"),
    [
        ([OURS], (OURS,), 0),
        ([OURS, THEIRS], (OURS,), 1),
        ([OURS, SPARE, THEIRS], (OURS, SPARE), 1),
        ([OURS, THEIRS], (OURS, SPARE), 1),
        ([THEIRS], (OURS,), 0),  # it is us, by the host's number
        ([THEIRS, 98], (OURS,), 1),
        ([THEIRS], (), 1),
        ([], (OURS,), 0),
    ],
)
def test_our_processes_are_no_others(
    nvml: dict[str, Any], listed: list[int], ours: tuple[int, ...], others: int
) -> None:
    running = [SimpleNamespace(pid=pid) for pid in listed]
    nvml["DeviceGetComputeRunningProcesses"] = lambda _: running
    assert read(*ours).other_processes == others


@pytest.mark.gpu
def test_a_gpu_is_read_without_its_user() -> None:
    allocated = torch.cuda.memory_stats().get("allocation.all.allocated", 0)
    others = int(allocated > 0)  # this very process, where other tests used the GPU
    code = (
        "import torch\n"
        "from cudnn_sweep.workloads.hardware.gpu import gpu_uuid\n"
        "from cudnn_sweep.workloads.hardware.nvml import open_monitor\n"
        "torch.zeros(1, device='cuda')\n"
        "monitor = open_monitor('nvml', gpu_uuid(0))\n"
        "reading = monitor.read()\n"
        "assert reading.sm_clock_mhz > 0 and reading.temperature_c > 0, reading\n"
        f"assert reading.other_processes == {others}, reading\n"
        "assert reading.throttle_reasons is not None, reading\n"
        "assert monitor.energy_mj() > 0\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


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
