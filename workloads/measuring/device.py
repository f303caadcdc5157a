"""The device that a trial measures on: waiting for it, and its memory."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceMemory:
    """Memory of the caching allocator in bytes, peaks since `forget_peak`. All None on a CPU."""

    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None


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

    def free_bytes(self) -> tuple[int, int] | tuple[None, None]:
        """Memory of the device that no process holds, and all of it; unknown on a CPU."""
        return torch.cuda.mem_get_info() if self.is_cuda else (None, None)

    def memory(self) -> DeviceMemory:
        if not self.is_cuda:
            return DeviceMemory()
        return DeviceMemory(
            allocated_bytes=torch.cuda.memory_allocated(),
            reserved_bytes=torch.cuda.memory_reserved(),
            peak_allocated_bytes=torch.cuda.max_memory_allocated(),
            peak_reserved_bytes=torch.cuda.max_memory_reserved(),
        )


def find_device() -> Device:
    return Device(torch=torch.device("cuda" if torch.cuda.is_available() else "cpu"))
