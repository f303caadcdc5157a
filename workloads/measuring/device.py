"""Synchronises the device of a trial and reads its memory use."""

from dataclasses import dataclass

import torch

from cudnn_sweep.workloads.measuring.ranks import meet
from cudnn_sweep.workloads.records.measured import MemoryUse

MEMORY = {
    "allocated": torch.cuda.memory_allocated,
    "reserved": torch.cuda.memory_reserved,
    "peak_allocated": torch.cuda.max_memory_allocated,
    "peak_reserved": torch.cuda.max_memory_reserved,
}
"""Functions that return the memory use of torch's CUDA allocator in bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    torch: torch.device

    @property
    def is_cuda(self) -> bool:
        return self.torch.type == "cuda"

    def synchronise(self) -> None:
        """Wait for the device. Rank 0 also waits for the devices of the other ranks."""
        if self.is_cuda:
            torch.cuda.synchronize()
        meet()

    def forget_peak(self) -> None:
        if self.is_cuda:
            torch.cuda.reset_peak_memory_stats()

    def free_bytes(self) -> tuple[int, int] | tuple[None, None]:
        """Return the free and the total memory of the GPU. Both are None on a CPU."""
        return torch.cuda.mem_get_info() if self.is_cuda else (None, None)

    def note_memory(self, memory: MemoryUse, column: str) -> None:
        """Store the memory use in `memory`. `column` is a pattern such as `steady_{}_bytes`."""
        for name, read in MEMORY.items() if self.is_cuda else ():
            if hasattr(memory, column.format(name)):
                setattr(memory, column.format(name), read())


def find_device() -> Device:
    return Device(torch=torch.device("cuda" if torch.cuda.is_available() else "cpu"))
