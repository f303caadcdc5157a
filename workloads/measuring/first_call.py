"""A model's first step, before anything is measured: whether it runs."""

from cudnn_sweep.workloads.cells.measurement import Measurement, TrialRequest
from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.measuring.device import find_device
from cudnn_sweep.workloads.measuring.process_setup import apply_request, setting_of


def call_once(request: TrialRequest) -> None:
    """Make the step of a trial's first call. Raises what the user's code raises."""
    apply_request(request, Measurement())
    device, cell = find_device(), request.cell
    step = find_workload(cell.workload).step(setting_of(cell, device))
    step.run(step.prepare(cell.input_shape))
    device.synchronise()
