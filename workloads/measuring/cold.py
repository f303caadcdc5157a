"""The first and second call of a shape, split where the backward pass begins and ends."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, ParamSpec, TypeVar

from cudnn_sweep.workloads.cells.measurement import ColdCall
from cudnn_sweep.workloads.differentiable import around_autograd
from cudnn_sweep.workloads.measuring.device import Device
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.workload import TimedStep

P = ParamSpec("P")
T = TypeVar("T")


def time_cold(
    step: TimedStep, shapes: Iterable[Shape], device: Device
) -> Iterator[tuple[ColdCall, Any]]:
    """Call each shape twice; yields the times and what the first call returned."""
    for shape in shapes:
        inputs = step.prepare(shape)
        first, result = split_call(step, inputs, device)
        second, _ = split_call(step, inputs, device)
        times = {f"first_{name}": ms for name, ms in first.items()}
        times |= {f"second_{name}": ms for name, ms in second.items()}
        yield ColdCall(shape=shape, **times), result


def split_call(step: TimedStep, inputs: Any, device: Device) -> tuple[dict[str, Any], Any]:
    """Times of one synchronised call, as the columns of a ColdCall end, and what it returned.

    Where autograd is called more than once, the passes are added up. What is left of `ms` came after them.
    """
    device.synchronise()
    began = perf_counter()
    with _watching_autograd(device) as passes:
        result = step.run(inputs)
    device.synchronise()
    total_s = perf_counter() - began
    times = {
        "ms": total_s * 1e3,
        "forward_ms": (passes[0][0] - began if passes else total_s) * 1e3,
        "backward_ms": sum(end - start for start, end in passes) * 1e3 if passes else None,
    }
    return times, result


@contextmanager
def _watching_autograd(device: Device) -> Iterator[list[tuple[float, float]]]:
    """Start and end of every backward pass, synchronised."""
    passes: list[tuple[float, float]] = []
    running = False  # checkpointing calls autograd inside a backward pass

    def timed(run: Callable[P, T]) -> Callable[P, T]:
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            nonlocal running
            if running:
                return run(*args, **kwargs)
            running = True
            device.synchronise()
            began = perf_counter()
            try:
                return run(*args, **kwargs)
            finally:
                device.synchronise()
                passes.append((began, perf_counter()))
                running = False

        return call

    with around_autograd(timed):
        yield passes
