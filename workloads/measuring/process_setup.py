"""Sets up a new process: compute cache, cuDNN's flags, TF32, threads and random seed."""

import os
import tempfile
from dataclasses import fields
from pathlib import Path

import torch

from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.config import Config, apply_config
from cudnn_sweep.workloads.cells.measurement import Measurement, TrialRequest
from cudnn_sweep.workloads.execution import EAGER
from cudnn_sweep.workloads.find_state import make_state
from cudnn_sweep.workloads.hardware.cpus import usable_cpus
from cudnn_sweep.workloads.measuring.device import Device
from cudnn_sweep.workloads.measuring.ranks import Ranks
from cudnn_sweep.workloads.precision import find_precision
from cudnn_sweep.workloads.workload import Context

COMPILED = "torch-compile"  # subfolder of torch.compile in a compute cache


def use_compute_cache(folder: Path, measured: Measurement) -> None:
    """Keep kernels of CUDA, torch.compile and Triton in `folder`. Call this before CUDA starts."""
    measured.compute_cache = "warm" if folder.exists() else "empty"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["CUDA_CACHE_PATH"] = str(folder)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / COMPILED / "inductor")
    os.environ["TRITON_CACHE_DIR"] = str(folder / COMPILED / "triton")
    os.environ.pop("CUDA_CACHE_DISABLE", None)
    measured.compute_cache_entries_before = count_compiled(folder)


def count_compiled(folder: Path) -> int:
    """Count the files of kernels that CUDA has compiled."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.name != "index")
    return sum(COMPILED not in file.parts for file in files)


def apply_request(request: TrialRequest, measured: Measurement, ranks: Ranks | None = None) -> None:
    """Set up this process before its first CUDA call. Store the settings in `measured`."""
    rank, of = (ranks.rank, ranks.of) if ranks else (0, 1)
    if request.compute_cache is not None:
        use_compute_cache(Path(request.compute_cache), measured)
        if request.config.how.compiles:
            tempfile.gettempdir()  # keeps the temporary folder of Python
            (compilers := Path(request.compute_cache, COMPILED)).mkdir(exist_ok=True)
            os.environ["TMPDIR"] = str(compilers)
    torch.set_num_threads(max(1, usable_cpus() // of))
    measured.threads = torch.get_num_threads()
    measured.config = apply_config(request.config)
    if request.compute_cache is not None and request.config.compute_cache_disabled:
        measured.compute_cache = "disabled"
    find_precision(request.cell.under(request.config).precision).apply()
    measured.conv_fp32_precision = torch.backends.cudnn.conv.fp32_precision  # type: ignore[attr-defined]
    torch.manual_seed(request.seed + rank)  # each rank draws different inputs


def context_of(cell: Cell, device: Device, config: Config | None = None) -> Context:
    config = config or Config()
    cell = cell.under(config)
    made = {
        "execution": config.execution or EAGER,
        "device": device.torch,
        "precision": find_precision(cell.precision),
        "state": make_state(cell.state, cell.state_parameters),
    }
    shared = {field.name for field in fields(Context)} & {field.name for field in fields(Cell)}
    return Context(**{name: getattr(cell, name) for name in shared} | made)
