"""Times `benchmark` as tutorials do: on and off in one process, by `time.time()`.

A step's first call runs the tutorial's script, which gives the trial's `own_times_ms`. Each
later call is one forward pass with the `benchmark` of the config.
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


# A tutorial's script loads cuDNN in its first timed convolution, so nothing here loads it earlier.
of_a_tutorial = workload(
    directions=("forward",), varies=("batch",), input_shape=IMAGES, pay_one_time_costs=touch
)


@of_a_tutorial
def tutorial_true_first(context: Context) -> TimedStep:
    """100 calls of Conv2d(3, 64, 3, 1, 1) with benchmark on, then 100 with it off."""
    return _script(context, (True, False))


@of_a_tutorial
def tutorial_false_first(context: Context) -> TimedStep:
    """As tutorial_true_first, but with benchmark off first."""
    return _script(context, (False, True))


@of_a_tutorial
def tutorial_synchronised(context: Context) -> TimedStep:
    """As tutorial_true_first, but with a warm-up call per flag and a synchronised clock."""
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
