"""The device that a trial measures on: waiting for it, and its memory."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryPeak:
    allocated_bytes: int | None
    reserved_bytes: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    torch: torch.device

    @property
    def is_cuda(self) -> bool:
        return self.torch.type == "cuda"

    def synchronise(self) -> None:
        if self.is_cuda:
            torch.cuda.synchronize()

    def forget_peak(self) -> None:
        if self.is_cuda:
            torch.cuda.reset_peak_memory_stats()

    def memory_peak(self) -> MemoryPeak:
        """Peaks of the caching allocator since `forget_peak`; unknown on a CPU."""
        if not self.is_cuda:
            return MemoryPeak(allocated_bytes=None, reserved_bytes=None)
        return MemoryPeak(
            allocated_bytes=torch.cuda.max_memory_allocated(),
            reserved_bytes=torch.cuda.max_memory_reserved(),
        )


def find_device() -> Device:
    return Device(torch=torch.device("cuda" if torch.cuda.is_available() else "cpu"))
