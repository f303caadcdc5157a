from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

import torch

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.hardware import cuda_driver
from cudnn_sweep.workloads.parameters import number
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.workload import Context, State, TimedStep

P = ParamSpec("P")
T = TypeVar("T")

MIB = 2**20
PAGE_BYTES = 2 * MIB  # CUDA's driver allocates in pages


@dataclass(frozen=True, kw_only=True)
class LittleMemory(State):
    """A step can allocate only `free_mib` MiB of GPU memory in addition to its inputs.

    The rest of the memory is occupied while steps are timed. On a CPU, the state has no effect.
    """

    alone = True

    free_mib: int = number(1024, least=1)

    def surround(self, step: TimedStep, context: Context) -> TimedStep:
        if context.device.type != "cuda":
            return step
        ballast = _Ballast(self.free_mib)

        def prepare(shape: Shape) -> Any:
            ballast.give_back()
            inputs = step.prepare(shape)
            ballast.take()
            return inputs

        examine = None if step.examine is None else ballast.without(step.examine)
        accuracy = step.accuracy and ballast.without(step.accuracy)
        return replace(step, prepare=prepare, examine=examine, accuracy=accuracy)


class _Ballast:
    """Occupies the free GPU memory except for `free_mib` MiB, from `take` until `give_back`."""

    def __init__(self, free_mib: int) -> None:
        self._free_mib = free_mib
        self._address: int | None = None

    def take(self) -> None:
        torch.cuda.empty_cache()
        free_bytes, _ = torch.cuda.mem_get_info()
        pages = (free_bytes - self._free_mib * MIB) // PAGE_BYTES
        if pages < 0:
            raise WorkloadError(
                f"state {LittleMemory.name}: free_mib is {self._free_mib}, but the step's "
                f"inputs leave only {free_bytes // MIB} MiB free"
            )
        if pages:
            self._address = cuda_driver.allocate(pages * PAGE_BYTES)

    def give_back(self) -> None:
        if self._address is not None:
            cuda_driver.free(self._address)
            self._address = None

    def without(self, call: Callable[P, T]) -> Callable[P, T]:
        def called(*args: P.args, **kwargs: P.kwargs) -> T:
            self.give_back()
            return call(*args, **kwargs)

        return called

    def __del__(self) -> None:
        self.give_back()
