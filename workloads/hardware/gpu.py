"""Reads which GPUs and MIG slices this process may use, from CUDA and NVML."""

import os
from typing import Any

import pynvml
import torch

from cudnn_sweep.workloads.hardware.listed_gpus import chosen_slices, listed_gpus, uuid_of_slice
from cudnn_sweep.workloads.hardware.nvml import NvmlGpu

VISIBLE = "CUDA_VISIBLE_DEVICES"
MIG = " MIG "  # comes before the profile in the name of a slice


def read_gpu() -> dict[str, Any]:
    """Return the fields of `Environment` for the first GPU. Some are None without NVML."""
    properties = torch.cuda.get_device_properties(0)
    uuid = gpu_uuid(0)
    nvml = NvmlGpu(uuid)
    power_mw = nvml.ask_whole(pynvml.nvmlDeviceGetEnforcedPowerLimit)
    return {
        "gpu": properties.name,
        "gpu_uuid": uuid,
        "gpu_memory_bytes": properties.total_memory,
        "mig_profile": _profile(properties.name, nvml) if nvml.is_slice else None,
        "max_sm_clock_mhz": nvml.ask_whole(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM),
        "power_limit_w": None if power_mw is None else power_mw / 1000,
        "driver": nvml.ask(lambda _: pynvml.nvmlSystemGetDriverVersion()),
    }


def seen_gpus() -> list[tuple[str, str]]:
    """Return the model and UUID of each visible GPU or MIG slice."""
    if not torch.cuda.is_available():
        return []
    is_slice = gpu_uuid(0).startswith("MIG-")
    if is_slice and (slices := chosen_slices(os.environ.get(VISIBLE), listed_gpus())):
        return [(gpu.name, gpu.uuid) for gpu in slices]
    # `gpu_uuid` has started CUDA. Before that, torch also counts GPUs that CUDA hides.
    indexes = range(torch.cuda.device_count())
    return [(torch.cuda.get_device_name(index), gpu_uuid(index)) for index in indexes]


def gpu_uuid(index: int) -> str:
    """Return the UUID of a GPU or MIG slice as NVML writes it."""
    properties = torch.cuda.get_device_properties(index)
    uuid = str(properties.uuid).removeprefix("GPU-").removeprefix("MIG-")
    whole = NvmlGpu(f"GPU-{uuid}")
    if whole.answers and not whole.is_sliced:
        return f"GPU-{uuid}"
    of_slice = uuid_of_slice(uuid, os.environ.get(VISIBLE), listed_gpus())
    return of_slice or (f"MIG-{uuid}" if MIG in properties.name else f"GPU-{uuid}")


def _profile(name: str, nvml: NvmlGpu) -> str | None:
    """Return the profile of a MIG slice, such as `1g.5gb`, or None if it is unknown."""
    names = (name, nvml.ask(pynvml.nvmlDeviceGetName) or "")
    return next((full.partition(MIG)[2] for full in names if MIG in full), None)
