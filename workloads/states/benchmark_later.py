from dataclasses import dataclass, replace
from typing import Any

from cudnn_sweep.workloads.parameters import number
from cudnn_sweep.workloads.states.benchmark_around_forward import benchmark_off
from cudnn_sweep.workloads.workload import Context, State, TimedStep


@dataclass(frozen=True, kw_only=True)
class BenchmarkLater(State):
    """`benchmark` is False in the first `calls` steps and has the config's value in later steps."""

    calls: int = number(1, least=1)

    def surround(self, step: TimedStep, context: Context) -> TimedStep:
        left = self.calls

        def run(inputs: Any) -> Any:
            nonlocal left
            if left == 0:
                return step.run(inputs)
            left -= 1
            with benchmark_off():
                return step.run(inputs)

        return replace(step, run=run)
