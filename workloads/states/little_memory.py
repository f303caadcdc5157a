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
    """Beside its inputs, a step finds `free_mib` of GPU memory for outputs, gradients and
    workspaces. On a CPU nothing changes.

    While steps are timed, an allocation from CUDA's driver occupies the rest of the memory. Memory
    columns do not count this allocation. The caching allocator is emptied, because a search may use
    the allocator's largest free block. A first call therefore allocates anew.
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
    """Holds free device memory except `free_mib`, from `take` until `give_back` or deletion."""

    def __init__(self, free_mib: int) -> None:
        self._free_mib = free_mib
        self._address: int | None = None

    def take(self) -> None:
        torch.cuda.empty_cache()
        free_bytes, _ = torch.cuda.mem_get_info()
        pages = (free_bytes - self._free_mib * MIB) // PAGE_BYTES
        if pages < 0:
            raise WorkloadError(
                f"state {LittleMemory.name}: free_mib is {self._free_mib}, and beside the step's "
                f"inputs only {free_bytes // MIB} MiB are free"
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
