"""What CUDA and NVML say of the GPU that this process sees first."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pynvml
import torch

T = TypeVar("T")


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
    """A machine without NVML still measures: what NVML alone knows is None there."""
    properties = torch.cuda.get_device_properties(0)
    uuid = str(properties.uuid)
    mig = uuid.startswith("MIG-") or " MIG " in properties.name
    uuid = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except pynvml.NVMLError:
        handle = None
    power_mw = _ask(handle, pynvml.nvmlDeviceGetEnforcedPowerLimit)
    return Gpu(
        model=properties.name,
        uuid=uuid,
        memory_bytes=properties.total_memory,
        mig_profile=properties.name.partition(" MIG ")[2] or None if mig else None,
        max_sm_clock_mhz=_ask(
            handle, lambda device: pynvml.nvmlDeviceGetMaxClockInfo(device, pynvml.NVML_CLOCK_SM)
        ),
        power_limit_w=None if power_mw is None else power_mw / 1000,
        driver=_ask(handle, lambda _: pynvml.nvmlSystemGetDriverVersion()),
    )


def _ask(handle: object, question: Callable[[object], T]) -> T | None:
    if handle is None:
        return None
    try:
        return question(handle)
    except pynvml.NVMLError:  # not every GPU, driver or slice answers everything
        return None
