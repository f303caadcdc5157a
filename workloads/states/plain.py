from dataclasses import dataclass

from cudnn_sweep.workloads.workload import Setting, State, TimedStep


@dataclass(frozen=True, kw_only=True)
class Plain(State):
    """Nothing surrounds the step: the default."""

    def surround(self, step: TimedStep, setting: Setting) -> TimedStep:
        return step
