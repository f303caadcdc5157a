from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from torch.backends import cudnn

from cudnn_sweep.workloads.differentiable import around_autograd
from cudnn_sweep.workloads.workload import Context, State, TimedStep


@dataclass(frozen=True, kw_only=True)
class BenchmarkAroundForward(State):
    """`benchmark` is False in the backward pass and has the config's value in the forward pass."""

    def surround(self, step: TimedStep, context: Context) -> TimedStep:
        return replace(step, run=around_autograd(benchmark_off())(step.run))


@contextmanager
def benchmark_off() -> Iterator[None]:
    before = cudnn.benchmark
    cudnn.benchmark = False
    try:
        yield
    finally:
        cudnn.benchmark = before
