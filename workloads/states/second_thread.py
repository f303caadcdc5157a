from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from cudnn_sweep.workloads.workload import Setting, State, TimedStep, pay_unrelated_step


@dataclass(frozen=True, kw_only=True)
class SecondThread(State):
    """Every second step runs in another thread. It has its own handles and its own cache of cuDNN's
    plans, so each shape is cold there.

    The other thread makes the second call of a new shape, so second_ms is also the time of a first
    call. Backward convolutions always run in autograd's own thread, so on a GPU only the forward
    ones are called twice. Wall time includes the hand-over, tens of µs.
    """

    def surround(self, step: TimedStep, setting: Setting) -> TimedStep:
        worker = ThreadPoolExecutor(1, thread_name_prefix=self.name)  # ends with the step
        worker.submit(_pay_one_time_costs, setting.device).result()
        is_second = cycle((False, True))

        def run(inputs: Any) -> Any:
            if next(is_second):
                return worker.submit(_with_our_context(step.run), inputs).result()
            return step.run(inputs)

        return replace(step, run=run, capturable=False)


def _pay_one_time_costs(device: torch.device) -> None:
    """The thread's own; random numbers that the workload draws afterwards stay the same."""
    with torch.random.fork_rng(devices=[]):
        pay_unrelated_step(device)


def _with_our_context(run: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What torch keeps by thread: the grad mode, and what watches operations."""
    grad_enabled, modes = torch.is_grad_enabled(), _get_current_dispatch_mode_stack()

    def run_there(inputs: Any) -> Any:
        with torch.set_grad_enabled(grad_enabled), ExitStack() as watching:
            for mode in modes:
                watching.enter_context(mode)
            return run(inputs)

    return run_there
