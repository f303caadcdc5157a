"""Times `benchmark` on and off in one process, as tutorials do.

The first call of a step runs the script of a tutorial, whose times are stored in `own_times_ms`.
Each later call runs one forward pass with the config's `benchmark`.
"""

import time

import torch
from torch import nn
from torch.backends import cudnn

from cudnn_sweep.workloads.catalog.noop import touch
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.workload import Context, TimedStep, workload

CALLS = 100
IMAGES: Shape = (64, 3, 256, 256)


# The first timed convolution must load cuDNN, as in a tutorial.
of_a_tutorial = workload(
    directions=("forward",), varies=("batch",), input_shape=IMAGES, pay_one_time_costs=touch
)


@of_a_tutorial
def tutorial_true_first(context: Context) -> TimedStep:
    """100 calls of Conv2d(3, 64, 3, 1, 1) with benchmark on, then 100 calls with benchmark off."""
    return _script(context, (True, False))


@of_a_tutorial
def tutorial_false_first(context: Context) -> TimedStep:
    """Like tutorial_true_first, but with benchmark off first."""
    return _script(context, (False, True))


@of_a_tutorial
def tutorial_synchronised(context: Context) -> TimedStep:
    """Like tutorial_true_first, but with warm-up calls and a synchronised clock."""
    return _script(context, (True, False), synchronised=True)


def _script(context: Context, flags: tuple[bool, bool], *, synchronised: bool = False) -> TimedStep:
    conv = context.place(nn.Conv2d(3, 64, 3, 1, 1, bias=False))
    times_ms: dict[str, float] = {}

    def wait() -> None:
        if context.device.type == "cuda":
            torch.cuda.synchronize()

    def time_both(images: torch.Tensor) -> None:
        for flag in flags:
            cudnn.benchmark = flag
            if synchronised:
                context.forward(conv, images)
                wait()
            began = time.time()
            for _ in range(CALLS):
                context.forward(conv, images)
            if synchronised:
                wait()
            times_ms[f"benchmark_{str(flag).lower()}"] = (time.time() - began) * 1e3

    def run(images: torch.Tensor) -> None:
        if times_ms:
            context.forward(conv, images)
            return
        before = cudnn.benchmark
        try:
            time_both(images)
        finally:
            cudnn.benchmark = before

    return TimedStep(
        prepare=context.random,
        run=run,
        examine=lambda images: {"output": context.forward(conv, images)},
        own_times_ms=lambda: dict(times_ms),
    )
