from dataclasses import dataclass, replace

from torch.utils.checkpoint import set_checkpoint_early_stop

from cudnn_sweep.workloads.workload import Context, State, TimedStep


@dataclass(frozen=True, kw_only=True)
class Checkpoint(State):
    """The forward pass keeps no activations and runs again in the backward pass.

    The second run is in autograd's thread, which has its own cache of cuDNN's plans.
    """

    recomputes = True

    def surround(self, step: TimedStep, context: Context) -> TimedStep:
        to_the_end = set_checkpoint_early_stop(False)
        examine = None if step.examine is None else to_the_end(step.examine)
        return replace(step, run=to_the_end(step.run), examine=examine)
