"""Runs a model before the measurement, to find errors and to estimate the time of a step."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from statistics import median
from time import perf_counter

from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.measurement import Measurement, TrialRequest
from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.measuring.device import find_device
from cudnn_sweep.workloads.measuring.process_setup import apply_request, context_of
from cudnn_sweep.workloads.measuring.step_watch import StepWatch

GLANCE_S = 0.3
MOST_STEPS = 20
LONG_S = 3.0  # a step that takes longer is run only once


def call_once(request: TrialRequest) -> float | None:
    """Run a few steps of a trial. Return their median time in ms, without the first step.

    Return None if only one step was run. Raises WorkloadError if the model differs from `expect`.
    """
    apply_request(request, Measurement())
    device, cell = find_device(), request.cell
    step = find_workload(cell.workload).step(context_of(cell, device))
    inputs = step.prepare(cell.input_shape)

    def run() -> float:
        began = perf_counter()
        step.run(inputs)
        device.synchronise()
        return perf_counter() - began

    with _expecting(cell) if cell.model and cell.model.expect else nullcontext():
        first_s = run()
    if first_s > LONG_S:
        return None
    times: list[float] = []
    with suppress(Exception):  # the first step has run, so the model works
        while len(times) < MOST_STEPS and sum(times) < GLANCE_S:
            times.append(run())
    return 1000 * median(times) if times else None


@contextmanager
def _expecting(cell: Cell) -> Iterator[None]:
    """Raise WorkloadError if the model called in the `with` block differs from `expect`."""
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
            f"{cell.workload.rpartition(':')[2]}({given}) has {has}, but `expect` has {wanted}. "
            "Are arguments of the model missing?"
        )
