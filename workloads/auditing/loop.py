"""Measures how much of a loop's time on the GPU the model and the optimiser take."""

from collections import deque
from importlib import import_module
from threading import get_ident
from typing import Any

from cudnn_sweep.workloads.auditing.findings import GpuLoop, OwnErrors

WARM_STEPS = 5  # number of first steps that are left out
Module = Any  # torch is not imported here
Event = Any


class LoopTimes:
    """Times of the steps in the first thread that calls a model on a GPU."""

    def __init__(self, own: OwnErrors) -> None:
        self._own = own
        self._torch: Any = None
        self._of: tuple[int, Any] | None = None
        """Thread and device of the first model call on a GPU, or None before this call."""
        self._began: Event | None = None
        self._ended: Event | None = None
        self._training = False
        self._unread: deque[tuple[Event, Event, Event]] = deque()
        """For each step, its start, the end of its work, and the start of the next step."""
        self._sums = GpuLoop(steps=-WARM_STEPS, work_ms=0.0, loop_ms=0.0)

    def watch(self, torch: Any) -> None:
        self._torch = torch
        optimizer = import_module("torch.optim.optimizer")  # torch.optim does not export it
        optimizer.register_optimizer_step_post_hook(self._optimised)

    def begin_call(self, module: Module) -> bool:
        """Begin a step if the last step has ended. Return whether `end_call` must be called."""
        device = next((weight.device for weight in module.parameters()), None)
        if device is None or device.type != "cuda":
            return False
        of = get_ident(), device
        self._of = self._of or of
        if of != self._of or self._torch.cuda.is_current_stream_capturing():
            return False
        if self._began is None or self._ended is not None:  # otherwise the same step continues
            began = self._mark()
            if self._began is not None:
                self._unread.append((self._began, self._ended, began))
            self._began, self._ended, self._training = began, None, False
            self._read()
        return True

    def end_call(self, *, training: bool) -> None:
        """End the step, except in training, in which the optimiser ends it."""
        self._training = self._training or training
        if not self._training:
            self._ended = self._mark()

    def _optimised(self, *_: object) -> None:
        if self._torch.compiler.is_dynamo_compiling() or self._began is None:
            return
        with self._own:
            if not self._torch.cuda.is_current_stream_capturing():
                self._ended = self._mark()

    def _mark(self) -> Event:
        assert self._of is not None
        event = self._torch.cuda.Event(enable_timing=True)
        event.record(self._torch.cuda.current_stream(self._of[1]))
        return event

    def _read(self) -> None:
        while self._unread and all(event.query() for event in self._unread[0]):
            began, ended, next_began = self._unread.popleft()
            self._sums.steps += 1
            if self._sums.steps > 0:
                self._sums.work_ms += began.elapsed_time(ended)
                self._sums.loop_ms += began.elapsed_time(next_began)

    def summary(self) -> GpuLoop | None:
        """Return the total times of the steps, or None if no step was measured."""
        with self._own:  # the script may have ended with a CUDA error
            self._read()
        return self._sums if self._sums.steps > 0 else None
