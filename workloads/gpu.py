"""What CUDA and NVML say of a GPU that this process sees."""

from dataclasses import dataclass

import pynvml
import torch

from cudnn_sweep.workloads.measuring.nvml import NvmlGpu


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    model: str
    uuid: str
    memory_bytes: int
    mig_profile: str | None
    max_sm_clock_mhz: int | None
    power_limit_w: float | None
    driver: str | None


def read_gpu() -> Gpu:
    """The first one. A machine without NVML still measures: what NVML alone knows is None there."""
    properties = torch.cuda.get_device_properties(0)
    uuid = gpu_uuid(0)
    mig = uuid.startswith("MIG-") or " MIG " in properties.name
    nvml = NvmlGpu(uuid)
    power_mw = nvml.ask(pynvml.nvmlDeviceGetEnforcedPowerLimit)
    return Gpu(
        model=properties.name,
        uuid=uuid,
        memory_bytes=properties.total_memory,
        mig_profile=properties.name.partition(" MIG ")[2] or None if mig else None,
        max_sm_clock_mhz=nvml.ask(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM),
        power_limit_w=None if power_mw is None else power_mw / 1000,
        driver=nvml.ask(lambda _: pynvml.nvmlSystemGetDriverVersion()),
    )


def gpu_uuid(index: int) -> str:
    """As NVML writes it; CUDA leaves out the prefix."""
    uuid = str(torch.cuda.get_device_properties(index).uuid)
    return uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
