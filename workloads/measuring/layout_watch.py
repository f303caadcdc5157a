"""Finds the operations of a step that lose channels_last, and those that convert layouts."""

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.profiler import record_function
from torch.utils._pytree import tree_leaves

from cudnn_sweep.workloads.layout import has_one_order, layout_of, memory_format
from cudnn_sweep.workloads.measuring.step_watch import BACKWARD, COMPOSITES, FORWARDS, StepWatch
from cudnn_sweep.workloads.measuring.tracing import TracedOperation

CONVOLUTIONS = (*FORWARDS, BACKWARD)
COPIES = ("clone", "copy_", "_to_copy", "contiguous")
CALL = "_call_impl"  # name of the torch.nn function that calls a module
MARK = "sweep operation "  # prefix of an operation's number in a profile


class LayoutWatch(StepWatch):
    """Records the operations of a step, with the layouts of their inputs and outputs."""

    def __init__(self, *, profiled: bool = False, **how: Any) -> None:
        super().__init__(**how)
        self.operations: list[TracedOperation] = []
        self._profiled = profiled
        self._net: nn.Module | None = None
        self._paths: dict[int, str] = {}
        self._lost: dict[int, int] = {}  # numbers of operations, by the storage of their result

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in COMPOSITES:
            return super().__torch_dispatch__(func, types, args, kwargs)
        name = str(func.overloadpacket.__name__)
        given = _tensors(args[1:] if name == "copy_" else (args, kwargs))
        takes = [order for tensor in given if (order := order_of(tensor))]
        marks = [n for each in given if (n := self._lost.get(_storage(each))) is not None]
        lost_by = marks[0] if marks else None
        convolved = args[: 2 if func in FORWARDS else 3] if func in CONVOLUTIONS else ()
        had = "channels_last" in takes or (convolved and layout_of(*convolved) == "channels_last")
        number = len(self.operations)
        with record_function(f"{MARK}{number}") if self._profiled else nullcontext():
            result = super().__torch_dispatch__(func, types, args, kwargs)
        known = set(map(_storage, given))
        made = [tensor for tensor in _tensors(result) if _storage(tensor) not in known]
        returns = [order for tensor in made if (order := order_of(tensor))]
        loses = not marks and bool(had) and "contiguous" in returns
        for tensor in made:
            self._lost.pop(_storage(tensor), None)
            if order_of(tensor) != "channels_last" and (marks or loses):
                self._lost[_storage(tensor)] = [*marks, number][0]
        turns = name in COPIES and len({*takes[:1], *returns[:1]}) == 2
        self.operations.append(
            TracedOperation(
                name=name,
                layer=self._layer(),
                takes=takes,
                returns=returns,
                lost_by=lost_by,
                loses=loses,
                pays=_converts(convolved) or (turns and not loses),
                converts=turns,
            )
        )
        return result

    def _layer(self) -> str:
        """Return the path and class of the running module, `backward`, or an empty text."""
        modules: list[nn.Module] = []
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            if frame.f_code.co_name == CALL:
                modules.append(frame.f_locals["self"])
            frame = frame.f_back
        if not modules:
            return "backward" if torch._C._current_graph_task_id() >= 0 else ""
        if self._net is not modules[-1]:
            self._net = modules[-1]
            self._paths = {id(part): path for path, part in self._net.named_modules()}
        path, kind = self._paths.get(id(modules[0])), type(modules[0]).__name__
        return f"{path} ({kind})" if path else kind


def _tensors(values: Any) -> list[torch.Tensor]:
    leaves = tree_leaves(values)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.numel()]


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def order_of(tensor: torch.Tensor) -> str | None:
    """Return a tensor's layout, or None if its strides do not show which layout it has."""
    sized = [n for n in range(tensor.dim()) if tensor.shape[n] > 1 and tensor.stride(n) > 0]
    if tensor.dim() < 3 or len(sized) < 2 or has_one_order(tensor.shape):
        return None
    closest = min(sized, key=tensor.stride)
    return "contiguous" if closest == sized[-1] else "channels_last"


def _converts(convolved: Sequence[torch.Tensor]) -> bool:
    """Return whether a convolution of these tensors has to convert one of their layouts."""
    forms = [memory_format(layout_of(*convolved), tensor.dim()) for tensor in convolved]
    pairs = zip(convolved, forms, strict=True)
    return not all(tensor.is_contiguous(memory_format=form) for tensor, form in pairs)
