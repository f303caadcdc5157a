"""What is read of a GPU beside a measurement, and what is made of it."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, get_args

import pynvml
import pytest
import torch

from cudnn_sweep.workloads.hardware.monitor import (
    GpuReading,
)
from cudnn_sweep.workloads.hardware.nvml import THROTTLE_REASONS, NvmlGpu, NvmlMonitor, open_monitor
from cudnn_sweep.workloads.warnings import ADVICE, WarningName
from tests.workloads.hardware.conftest import CLOCKS_MHZ, OURS, THEIRS

SPARE = 12


def test_every_warning_says_what_to_do() -> None:
    assert set(ADVICE) == set(get_args(WarningName))


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


@pytest.mark.parametrize(
    ("kind", "clocks", "reasons", "others"),
    [
        ("fake_calm", [1980, 1965, 1980], (), 0),
        ("fake_shared", [1980, 1980, 1980], (), 1),
        ("fake_throttled", [1980, 1980, 1980], ("hw_thermal_slowdown",), 0),
        ("fake_power_capped", [1755, 1740, 1755], ("sw_power_cap",), 0),
        ("fake_unsettled", [1980, 1200, 1980], (), 0),
        ("fake_slice", [None, None, None], None, 0),
    ],
)
def test_a_made_up_monitor_repeats_its_readings(
    kind: Any, clocks: list[int | None], reasons: tuple[str, ...] | None, others: int
) -> None:
    monitor = open_monitor(kind, None)
    assert monitor is not None and monitor.source == kind
    readings = [monitor.read() for _ in range(3)]
    assert [reading.sm_clock_mhz for reading in readings] == clocks
    is_whole = kind != "fake_slice"
    for reading in readings:
        assert (reading.throttle_reasons, reading.other_processes) == (reasons, others)
        assert (reading.memory_clock_mhz, reading.temperature_c) == (
            (2619, 45) if is_whole else (None, None)
        )
    assert (monitor.energy_mj() is not None) == is_whole


def test_a_slice_has_no_clock_of_its_own_and_the_calling_process_is_always_ours(
    nvml: dict[str, Any],
) -> None:
    whole, part = NvmlMonitor(NvmlGpu("GPU-cc")), NvmlMonitor(NvmlGpu("MIG-a1"))
    assert (whole.max_sm_clock_mhz, part.max_sm_clock_mhz) == (1410, None)
    assert part.read() == GpuReading(other_processes=1) and part.energy_mj() is None
    here = os.getpid()
    running = [SimpleNamespace(pid=pid) for pid in (here, SPARE, THEIRS, 98)]
    nvml["DeviceGetComputeRunningProcesses"] = lambda _: running
    assert whole.read().other_processes == 3
    whole.know([SPARE])
    assert whole.read().other_processes == 2
