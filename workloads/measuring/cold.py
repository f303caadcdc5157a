"""The first and second call of a shape, split where the backward pass begins and ends."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, ParamSpec, TypeVar

from cudnn_sweep.workloads.cells.measurement import ColdCall
from cudnn_sweep.workloads.differentiable import around_autograd
from cudnn_sweep.workloads.measuring.device import Device
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.workload import TimedStep

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitCall:
    """Milliseconds. What is left of `total_ms` came after the backward pass."""

    total_ms: float
    forward_ms: float
    backward_ms: float | None
    result: Any


def time_cold(
    step: TimedStep, shapes: Iterable[Shape], device: Device
) -> Iterator[tuple[ColdCall, Any]]:
    """Call each shape twice; yields the times and what the first call returned."""
    for shape in shapes:
        inputs = step.prepare(shape)
        first = split_call(step, inputs, device)
        second = split_call(step, inputs, device)
        call = ColdCall(
            shape=shape,
            first_ms=first.total_ms,
            first_forward_ms=first.forward_ms,
            first_backward_ms=first.backward_ms,
            second_ms=second.total_ms,
            second_forward_ms=second.forward_ms,
            second_backward_ms=second.backward_ms,
        )
        yield call, first.result


def split_call(step: TimedStep, inputs: Any, device: Device) -> SplitCall:
    """One synchronised call. Where autograd is called more than once, the passes are added up."""
    device.synchronise()
    began = perf_counter()
    with _watching_autograd(device) as passes:
        result = step.run(inputs)
    device.synchronise()
    total_s = perf_counter() - began
    return SplitCall(
        total_ms=total_s * 1e3,
        forward_ms=(passes[0][0] - began if passes else total_s) * 1e3,
        backward_ms=sum(end - start for start, end in passes) * 1e3 if passes else None,
        result=result,
    )


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
