"""Reads values of one GPU with NVML."""

import os
from collections.abc import Callable, Collection, Iterable
from typing import Any

import pynvml

from cudnn_sweep.workloads.hardware.listed_gpus import is_sliced
from cudnn_sweep.workloads.hardware.monitor import FakeMonitor, GpuReading, Monitor, MonitorKind

# Bits of nvmlClocksEventReasons in nvml.h, without GpuIdle.
THROTTLE_REASONS = {
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
REASON_QUESTIONS = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",  # name in older versions
)


class NvmlGpu:
    """A GPU or MIG slice. A value is None if NVML does not report it."""

    def __init__(self, uuid: str) -> None:
        """Open the GPU or slice with this UUID, which begins with `GPU-` or `MIG-`."""
        try:
            pynvml.nvmlInit()
            self._handle: Any = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        except pynvml.NVMLError:
            self._handle = None
        self.is_slice = uuid.startswith("MIG-")

    @property
    def answers(self) -> bool:
        return self._handle is not None

    @property
    def is_sliced(self) -> bool:
        return self.answers and is_sliced(self._handle)

    def ask(self, question: Callable[..., Any], *arguments: object) -> Any:
        """Call a function of pynvml for this GPU and return the result, or None if it fails."""
        try:
            return question(self._handle, *arguments) if self.answers else None
        except pynvml.NVMLError:
            return None

    def ask_whole(self, question: Callable[..., Any], *arguments: object) -> Any:
        """Call a function of pynvml like `ask`, but return None for a slice."""
        return None if self.is_slice else self.ask(question, *arguments)


class NvmlMonitor:
    """A monitor that uses NVML. `read` takes 30 µs, and `energy_mj` takes 3 to 14 ms."""

    source: MonitorKind = "nvml"

    def __init__(self, gpu: NvmlGpu, our_pids: Collection[int] | None = None) -> None:
        self._gpu = gpu
        self.max_sm_clock_mhz: int | None = gpu.ask_whole(
            pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM
        )
        self._our_pids = frozenset([os.getpid()] if our_pids is None else our_pids)

    def know(self, pids: Iterable[int], /) -> None:
        self._our_pids = frozenset([os.getpid(), *pids])

    def read(self) -> GpuReading:
        ask = self._gpu.ask_whole
        return GpuReading(
            sm_clock_mhz=ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
            memory_clock_mhz=ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_MEM),
            temperature_c=ask(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
            throttle_reasons=self._throttle_reasons(),
            other_processes=self._other_processes(),
        )

    def energy_mj(self) -> int | None:
        energy_mj: int | None = self._gpu.ask_whole(pynvml.nvmlDeviceGetTotalEnergyConsumption)
        return energy_mj

    def _throttle_reasons(self) -> tuple[str, ...] | None:
        for name in REASON_QUESTIONS:
            bits = self._gpu.ask_whole(getattr(pynvml, name)) if hasattr(pynvml, name) else None
            if bits is not None:
                return tuple(reason for bit, reason in THROTTLE_REASONS.items() if bits & bit)
        return None

    def _other_processes(self) -> int | None:
        listed = self._gpu.ask(pynvml.nvmlDeviceGetComputeRunningProcesses)
        if listed is None:
            return None
        pids = {process.pid for process in listed}
        ours = pids & self._our_pids or self._our_pids  # in a container, NVML lists other ids
        return max(0, len(pids) - len(ours))


def open_monitor(
    kind: MonitorKind, uuid: str | None, *, our_pids: Collection[int] | None = None
) -> Monitor | None:
    """Return a monitor, or None if `kind` is `off` or NVML cannot read the GPU.

    `our_pids` are processes that are not counted as other processes. The default is this process.
    """
    if kind.startswith("fake_"):
        return FakeMonitor(kind)
    if kind == "off" or uuid is None:
        return None
    gpu = NvmlGpu(uuid)
    return NvmlMonitor(gpu, our_pids) if gpu.answers else None
