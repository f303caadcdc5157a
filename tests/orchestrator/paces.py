"""A user's workloads. One takes three times as long since version 0.0.1 of ours, the other does not."""

from importlib.metadata import version
from time import sleep

import torch

from cudnn_sweep.workloads.workload import Context, TimedStep, workload

SLOWER = 1.0 if version("cudnn-sweep") == "0.0.1" else 3.0


def nothing(device: torch.device) -> None:
    """The costs that a first step pays are none of these workloads'."""


sleeping = workload(
    directions=("forward",), varies=(), input_shape=(1,), pay_one_time_costs=nothing
)


@sleeping
def slower_since(context: Context) -> TimedStep:
    return _sleeps(context, 0.02 * SLOWER)


@sleeping
def as_before(context: Context) -> TimedStep:
    return _sleeps(context, 0.02)


def _sleeps(context: Context, pace_s: float) -> TimedStep:
    return TimedStep(prepare=context.random, run=lambda images: sleep(pace_s))
