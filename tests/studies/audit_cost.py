"""What `sweep audit` costs a convolution, beside other ways to see one.

It runs on the CPU, in a minute, and the smallest convolution there is: what an audit adds does not depend on the
sizes. Rounds with and without are interleaved, and the fastest of each are compared, as timeit advises: what else the
machine does only adds to a round. With --json the figures are printed as JSON.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import thread_time
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from cudnn_sweep.workloads.auditing.convolutions import Convolutions
from cudnn_sweep.workloads.auditing.findings import OwnErrors
from cudnn_sweep.workloads.auditing.loop import LoopTimes
from cudnn_sweep.workloads.auditing.models import Models

ROUNDS = 41
CALLS = 2000  # of convolutions in a round
LAYERS = 20  # of the network: a convolution, a batch norm and a ReLU each
BAR_US = 6.0

Way = Callable[[], AbstractContextManager[object]]


class AsFunctions(TorchFunctionMode):
    """Sees every function of torch, and does nothing about it."""

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        return func(*args, **(kwargs or {}))


class AsOperations(TorchDispatchMode):
    """Sees every operation, and does nothing about it."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        return func(*args, **(kwargs or {}))


@contextmanager
def hook_of_all_modules() -> Iterator[None]:
    handle = register_module_forward_pre_hook(lambda module, inputs: None)
    try:
        yield
    finally:
        handle.remove()


class Audit:
    """That of `sweep audit`, put in and taken out again."""

    def __init__(self) -> None:
        self._plain = torch.conv2d, nn.Module.__call__
        own = OwnErrors()
        self.convolutions = Convolutions(own)
        self.convolutions.watch(torch)
        Models(own, self.convolutions, LoopTimes(own), lambda calls: None).watch(torch)
        self._watched = torch.conv2d, nn.Module.__call__
        self._put(self._plain)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        self._put(self._watched)
        try:
            yield
        finally:
            self._put(self._plain)

    def _put(self, functions: tuple[Callable[..., Any], Callable[..., Any]]) -> None:
        torch.conv2d = functional.conv2d = functions[0]
        nn.Module.__call__ = functions[1]  # type: ignore[method-assign]


def one_function() -> Callable[[], None]:
    """Nothing but convolutions, called as torch.nn.Conv2d calls them."""
    image, weight = torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1)

    def call() -> None:
        conv2d = functional.conv2d
        for _ in range(CALLS):
            conv2d(image, weight, None, (1, 1), (0, 0), (1, 1), 1)

    return call


class Net(nn.Module):
    """Modules of a usual network, three to a convolution."""

    def __init__(self) -> None:
        super().__init__()
        made = ((nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1), nn.ReLU()) for _ in range(LAYERS))
        self.layers = nn.Sequential(*(layer for layers in made for layer in layers))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers(image)
        return found


def network() -> Callable[[], None]:
    """A forward pass, again and again."""
    net, image = Net().eval(), torch.zeros(1, 1, 1, 1)

    def call() -> None:
        with torch.no_grad():
            for _ in range(CALLS // LAYERS):
                net(image)

    return call


def new_shapes() -> Callable[[], None]:
    """Every call has a shape of its own."""
    weight, number = torch.zeros(1, 1, 1, 1), 0
    storage = torch.zeros(ROUNDS * CALLS)

    def call() -> None:
        nonlocal number
        for _ in range(CALLS // 20):
            number += 1
            functional.conv2d(storage[:number].view(1, 1, 1, number), weight)

    return call


def added_us(work: Callable[[], None], way: Way, calls: int) -> float:
    """Microseconds that `way` adds to each of the `calls` convolutions of `work`."""
    work()
    with way():
        work()
    took: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(ROUNDS):
        for each in (nullcontext, way):
            with each():
                began = thread_time()
                work()
                took[each is way].append(thread_time() - began)
    return (min(took[True]) - min(took[False])) / calls * 1e6


def main() -> int:
    torch.set_num_threads(1)
    audit = Audit()
    ways: dict[str, Way] = {
        "the audit": audit,
        "a TorchFunctionMode that does nothing": AsFunctions,
        "a TorchDispatchMode that does nothing": AsOperations,
        "a global forward pre-hook that does nothing": hook_of_all_modules,
    }
    figures = {
        name: {
            "function": added_us(one_function(), way, CALLS),
            "network": added_us(network(), way, CALLS),
        }
        for name, way in ways.items()
    }
    new_us = added_us(new_shapes(), audit, CALLS // 20)
    if "--json" in sys.argv:
        print(json.dumps({"added_us": figures, "new_shape_us": new_us}, indent=2))
        return 0
    print(f"torch {torch.__version__}; microseconds added to each convolution")
    print(f"{'':45}  conv2d alone  in a network")
    for name, found in figures.items():
        print(f"{name:45}  {found['function']:12.2f}  {found['network']:12.2f}")
    print(f"the audit, at a shape's first call: {new_us:.1f}")
    print(
        f"{audit.convolutions.calls():,} calls of {len(audit.convolutions.distinct()):,} were counted"
    )
    return int(max(figures["the audit"].values()) > BAR_US)


if __name__ == "__main__":
    sys.exit(main())
