from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

import torch
from torch.backends import cudnn

from cudnn_sweep.workloads.workload import Setting, State, TimedStep

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class BenchmarkAroundForward(State):
    """`benchmark` is as the config has it in the forward pass, and off in the backward pass: somebody sets
    it in a `with` block around the forward pass alone.
    """

    def surround(self, step: TimedStep, setting: Setting) -> TimedStep:
        return replace(step, run=_off_in_autograd(step.run))


@contextmanager
def benchmark_off() -> Iterator[None]:
    """By attribute: `cudnn.flags` would turn cuDNN off."""
    asked = cudnn.benchmark
    cudnn.benchmark = False
    try:
        yield
    finally:
        cudnn.benchmark = asked


def _off_in_autograd(run: Callable[P, T]) -> Callable[P, T]:
    """Both ways into autograd are functions of Python: `Tensor.backward` calls `torch.autograd.backward`."""

    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        backward, grad = torch.autograd.backward, torch.autograd.grad
        torch.autograd.backward = _off_in(backward)
        torch.autograd.grad = _off_in(grad)
        try:
            return run(*args, **kwargs)
        finally:
            torch.autograd.backward, torch.autograd.grad = backward, grad

    return called


def _off_in(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        with benchmark_off():
            return function(*args, **kwargs)

    return called
