from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

from cudnn_sweep.workloads.states.benchmark_around_forward import benchmark_off
from cudnn_sweep.workloads.workload import Context, State, TimedStep


@dataclass(frozen=True, kw_only=True)
class BenchmarkToggled(State):
    """`benchmark` is False in every second step and has the config's value in the others."""

    def surround(self, step: TimedStep, context: Context) -> TimedStep:
        is_on = cycle((True, False))

        def toggled(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
            def run(inputs: Any) -> Any:
                with nullcontext() if next(is_on) else benchmark_off():
                    return call(inputs)

            return run

        examine = None if step.examine is None else toggled(step.examine)
        return replace(step, run=toggled(step.run), examine=examine)
