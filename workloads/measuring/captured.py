"""Runs a step by replaying CUDA graphs, with one graph for each shape of the input."""

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map_only

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.execution import EXECUTIONS
from cudnn_sweep.workloads.measuring.device_time import CannotCapture, capture, check_capturable
from cudnn_sweep.workloads.records.measured import Ran
from cudnn_sweep.workloads.workload import TimedStep

Captured = tuple[torch.cuda.CUDAGraph, list[torch.Tensor], Any]
"""A graph, the tensors from which it reads its inputs, and its result."""


class CapturedStep:
    """A step that replays a CUDA graph. The first call at each shape captures the graph."""

    def __init__(self, step: TimedStep) -> None:
        self._step = step
        self._graphs: dict[tuple[Any, ...], Captured] = {}
        self.replays = 0
        self._capture_s = 0.0

    def __call__(self, inputs: Any) -> Any:
        leaves, spec = tree_flatten(inputs)
        key = (str(spec), *map(_key_of, leaves))
        captured = self._graphs.get(key)
        if captured is None:
            return self._run_and_capture(key, tree_map_only(torch.Tensor, _copied, inputs))
        graph, own_inputs, result = captured
        given = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        with torch.no_grad():
            for own, its in zip(own_inputs, given, strict=True):
                own.copy_(its)
        graph.replay()
        self.replays += 1
        return result

    def note_shape(self, ran: Ran) -> None:
        ran.cold_compile_ms = [*(ran.cold_compile_ms or ()), self._capture_s * 1e3]
        self._capture_s = 0.0

    def _run_and_capture(self, key: tuple[Any, ...], inputs: Any) -> Any:
        """Run the step, capture a graph of it, and return the result. Raises WorkloadError."""
        run: Callable[[], Any] = partial(self._step.run, inputs)
        first, results = _without_graph(run()), list[Any]()
        torch.cuda.synchronize()
        began = perf_counter()
        try:
            check_capturable(self._step, run)
            graph = capture(lambda: results.append(_without_graph(run())), after=run)
        except CannotCapture as reason:
            raise WorkloadError(
                f"execution cuda_graph: the step cannot be captured: {reason}"
            ) from reason
        own = [leaf for leaf in tree_flatten(inputs)[0] if isinstance(leaf, torch.Tensor)]
        self._graphs[key] = graph, own, results[0]
        self._capture_s += perf_counter() - began
        return first


def executed(step: TimedStep, execution: str) -> TimedStep:
    how = EXECUTIONS[execution]
    if how.captured:
        return replace(step, run=CapturedStep(step), as_written=step.run)
    if how.compiles:
        eagerly = torch.compiler.set_stance("force_eager")(step.run)
        return replace(
            step, as_written=eagerly, capturable=step.capturable and not how.makes_graphs
        )
    return step


def _key_of(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.shape, leaf.stride(), leaf.dtype
    if not isinstance(leaf, Hashable):
        found = type(leaf).__name__
        raise WorkloadError(
            f"execution cuda_graph: found an input of type {found}; "
            "an input must be a tensor or a hashable value"
        )
    return leaf


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def _without_graph(result: Any) -> Any:
    return result.detach() if isinstance(result, torch.Tensor) else None
