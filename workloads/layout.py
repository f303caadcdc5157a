"""Layout: the order in which a tensor's elements lie in memory."""

from typing import TYPE_CHECKING

from cudnn_sweep.workloads.errors import unknown

if TYPE_CHECKING:
    import torch

LAYOUTS = ("contiguous", "channels_last")


def check_layout(name: str) -> str:
    if name not in LAYOUTS:
        raise unknown("layout", name, list(LAYOUTS))
    return name


def memory_format(layout: str, dimensions: int) -> "torch.memory_format":
    """Torch's format for tensors of so many dimensions; only images and volumes have channels_last."""
    import torch

    if layout == "channels_last":
        return {4: torch.channels_last, 5: torch.channels_last_3d}.get(
            dimensions, torch.contiguous_format
        )
    return torch.contiguous_format
