import torch

from cudnn_sweep.workloads.workload import Context, TimedStep, workload


def touch(device: torch.device) -> None:
    torch.zeros(1, device=device)


@workload(directions=("forward",), varies=("batch",), input_shape=(1, 1), pay_one_time_costs=touch)
def noop(context: Context) -> TimedStep:
    """A step that does nothing, to show the overhead of a trial."""
    return TimedStep(prepare=context.random, run=lambda numbers: numbers)
