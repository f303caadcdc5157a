"""The log pass: an untimed process that meets the base shape while cuDNN writes down what it chooses.

A process of its own, since writing the log takes time; what it draws may differ from what the timed
process drew, so it says which kernels it launches.
"""

import os
import tempfile
from pathlib import Path

import torch

from cudnn_sweep.workloads.cells.measurement import LogPass, Measurement, TrialRequest
from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.measuring.choice import read_choice
from cudnn_sweep.workloads.measuring.device import find_device
from cudnn_sweep.workloads.measuring.engine_log import (
    FILE_VARIABLE,
    VARIABLES,
    read_engine_log,
    searched_workspaces,
)
from cudnn_sweep.workloads.measuring.process_setup import apply_request, setting_of


def run_log_pass(request: TrialRequest) -> LogPass:
    """Needs CUDA. Raises what the workload raises."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "cudnn-frontend.log")
        os.environ.update({**VARIABLES, FILE_VARIABLE: str(log)})  # before the first CUDA call
        apply_request(request, Measurement())
        device = find_device()
        step = find_workload(request.cell.workload).step(setting_of(request.cell, device))
        inputs = step.prepare(request.cell.input_shape)
        free_bytes, _ = torch.cuda.mem_get_info()
        step.run(inputs)
        torch.cuda.synchronize()
        text = log.read_text() if log.exists() else ""
        choices, workspaces = read_engine_log(text), searched_workspaces(text)
        choice, _ = read_choice(step, request.cell.input_shape, device)
    return LogPass(
        logged_choices=choices,
        logged_searches=sum(found.plans_timed > 0 for found in choices),
        logged_workspace_bytes=max((found.workspace_bytes for found in choices), default=None),
        logged_largest_workspace_bytes=max(workspaces, default=None),
        logged_plans_dropped=sum(workspace > free_bytes for workspace in workspaces),
        kernels_hash=choice.kernels_hash,
    )
