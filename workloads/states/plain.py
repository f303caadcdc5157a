from dataclasses import dataclass

from cudnn_sweep.workloads.workload import Context, State, TimedStep


@dataclass(frozen=True, kw_only=True)
class Plain(State):
    """Nothing surrounds the step: the default."""

    def surround(self, step: TimedStep, context: Context) -> TimedStep:
        return step
