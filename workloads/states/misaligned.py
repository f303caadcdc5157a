from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from cudnn_sweep.workloads.parameters import number
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.workload import Context, State, TimedStep

MOST = 3  # so that the offset is below 16 bytes


@dataclass(frozen=True, kw_only=True)
class Misaligned(State):
    """The addresses of floating-point inputs are not multiples of 16 bytes.

    The inputs start at element `offset` of a larger storage. Weights and activations stay aligned.
    PyTorch's cache of cuDNN's plans has the alignment of tensors in its key.
    """

    offset: int = number(1, least=1, most=MOST)

    def surround(self, step: TimedStep, context: Context) -> TimedStep:
        def prepare(shape: Shape) -> Any:
            return tree_map_only(torch.Tensor, self._moved, step.prepare(shape))

        return replace(step, prepare=prepare)

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        steps = zip(tensor.shape, tensor.stride(), strict=True)
        extent = 1 + sum((size - 1) * stride for size, stride in steps)
        values = tensor.detach().as_strided((extent,), (1,))
        moved = values.new_empty(self.offset + extent)[self.offset :].copy_(values)
        return moved.as_strided(tensor.shape, tensor.stride()).requires_grad_(tensor.requires_grad)
