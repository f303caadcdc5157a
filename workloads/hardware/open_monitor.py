"""The monitor of a GPU that is asked for: NVML, or a fake."""

from collections.abc import Collection

from cudnn_sweep.workloads.hardware.monitor import SCRIPTS, FakeMonitor, Monitor, MonitorKind
from cudnn_sweep.workloads.hardware.nvml import NvmlGpu, NvmlMonitor


def open_monitor(
    kind: MonitorKind, uuid: str | None, *, our_pids: Collection[int] | None = None
) -> Monitor | None:
    """None where nothing is asked for or nobody answers: a machine without NVML still measures.

    `our_pids`: processes of ours that use the GPU; this one alone where not told.
    """
    if kind in SCRIPTS:
        return FakeMonitor(kind)
    if kind == "off" or uuid is None:
        return None
    gpu = NvmlGpu(uuid)
    return NvmlMonitor(gpu, our_pids) if gpu.answers else None
