"""Whether a workload's `prepare` makes the shapes that it is asked for."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.workload import TimedStep


class MadeShapes:
    def __init__(self) -> None:
        self.others = 0
        """How often tensors came, and none of the shape asked for."""

    def watching(self, step: TimedStep) -> TimedStep:
        """The step, whose inputs are looked at as they are made."""

        def prepare(shape: Shape) -> Any:
            inputs = step.prepare(shape)
            shapes = {tuple(tensor.shape) for tensor in _tensors(inputs)}
            self.others += bool(shapes) and shape not in shapes
            return inputs

        return replace(step, prepare=prepare)


def _tensors(inputs: object) -> Iterator[torch.Tensor]:
    if isinstance(inputs, torch.Tensor):
        yield inputs
    elif isinstance(inputs, Mapping):
        yield from _tensors(list(inputs.values()))
    elif isinstance(inputs, tuple | list):
        for part in inputs:
            yield from _tensors(part)
