from dataclasses import dataclass

from cudnn_sweep.workloads.workload import Context, State, TimedStep


@dataclass(frozen=True, kw_only=True)
class Plain(State):
    """No special condition. This is the default state."""

    def surround(self, step: TimedStep, context: Context) -> TimedStep:
        return step
