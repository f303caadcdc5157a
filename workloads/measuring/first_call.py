"""Runs a model's first step, before the measurement, and checks that the model is as expected."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.measurement import Measurement, TrialRequest
from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.measuring.device import find_device
from cudnn_sweep.workloads.measuring.process_setup import apply_request, context_of
from cudnn_sweep.workloads.measuring.step_watch import StepWatch


def call_once(request: TrialRequest) -> None:
    """Run a trial's first step. Raises the errors of the user's code, and WorkloadError for an unexpected model."""
    apply_request(request, Measurement())
    device, cell = find_device(), request.cell
    step = find_workload(cell.workload).step(context_of(cell, device))
    inputs = step.prepare(cell.input_shape)
    with _expecting(cell) if cell.model and cell.model.expect else nullcontext():
        step.run(inputs)
    device.synchronise()


@contextmanager
def _expecting(cell: Cell) -> Iterator[None]:
    """Raise WorkloadError if the first model called in the block has unexpected parameter or convolution counts."""
    assert cell.model is not None and cell.model.expect is not None
    watch, inside, counted = StepWatch(), list[nn.Module](), dict[str, int]()

    def enter(module: nn.Module, _: object) -> None:
        inside.append(module)

    def leave(module: nn.Module, *_: object) -> None:
        inside.pop()
        if not inside and not counted:
            counted["parameters"] = sum(weight.numel() for weight in module.parameters())
            counted["convolutions"] = len(watch.routes)

    hooks = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave)]
    with watch:
        yield
    for hook in hooks:
        hook.remove()
    expected = cell.model.expect.model_dump(exclude_none=True)
    if any(counted.get(name) != count for name, count in expected.items()):
        given = ", ".join(f"{name}={value!r}" for name, value in cell.model.arguments.items())
        counts = ((counted.get(name, 0), name) for name in expected)
        has = " and ".join(f"{n:,} {name if n != 1 else name[:-1]}" for n, name in counts)
        wanted = " and ".join(f"{count:,}" for count in expected.values())
        raise WorkloadError(
            f"{cell.workload.rpartition(':')[2]}({given}) has {has}; expected {wanted}: are "
            "arguments of the model missing?"
        )
