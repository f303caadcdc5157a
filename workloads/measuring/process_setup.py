"""What a fresh process sets before it does anything: cache, flags, TF32, threads and seed."""

from pathlib import Path

import torch

from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.config import apply_config
from cudnn_sweep.workloads.cells.measurement import Measurement, TrialRequest
from cudnn_sweep.workloads.find_state import make_state
from cudnn_sweep.workloads.hardware.cpus import usable_cpus
from cudnn_sweep.workloads.measuring.compute_cache import ComputeCache, use_compute_cache
from cudnn_sweep.workloads.measuring.device import Device
from cudnn_sweep.workloads.precision import find_precision
from cudnn_sweep.workloads.workload import Setting


def apply_request(request: TrialRequest, measured: Measurement) -> ComputeCache | None:
    """Before the process's first CUDA call. What can be read back is, into `measured`."""
    cache = None
    if request.compute_cache is not None:
        cache = use_compute_cache(Path(request.compute_cache))
        measured.compute_cache = cache.state
        measured.compute_cache_entries_before = cache.entries_before
    torch.set_num_threads(usable_cpus())
    measured.threads = torch.get_num_threads()
    measured.config = apply_config(request.config)
    if cache is not None and request.config.compute_cache_disabled:
        measured.compute_cache = "disabled"
    find_precision(request.cell.precision).apply()
    measured.conv_fp32_precision = torch.backends.cudnn.conv.fp32_precision  # type: ignore[attr-defined]
    torch.manual_seed(request.seed)
    return cache


def setting_of(cell: Cell, device: Device) -> Setting:
    return Setting(
        device=device.torch,
        precision=find_precision(cell.precision),
        layout=cell.layout,
        direction=cell.direction,
        problem=cell.problem,
        model=cell.model,
        state=make_state(cell.state, cell.state_parameters),
    )
