"""Layout: the order in which a tensor's elements lie in memory."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

from cudnn_sweep.workloads.errors import unknown

if TYPE_CHECKING:
    import torch

Layout = Literal["contiguous", "channels_last", "weights"]
LAYOUTS = get_args(Layout)
WEIGHTS = "weights"  # parameters are channels_last, inputs are contiguous
BY_STRIDES = "strides"
"""Value of `Cell.placement` if contiguous and channels_last differ only in strides."""


def check_layout(name: str) -> str:
    if name not in LAYOUTS:
        raise unknown("layout", name, list(LAYOUTS))
    return name


def memory_format(layout: str, dimensions: int) -> "torch.memory_format":
    import torch

    formats = (
        {4: torch.channels_last, 5: torch.channels_last_3d} if layout == "channels_last" else {}
    )
    return formats.get(dimensions, torch.contiguous_format)


def lay_out(tensor: "torch.Tensor", layout: str) -> "torch.Tensor":
    # `contiguous(memory_format=...)` would keep the strides of a tensor with one channel
    return tensor.to(memory_format=memory_format(layout, tensor.dim()))


def lay_out_parameter(tensor: "torch.Tensor", layout: str) -> "torch.Tensor":
    return lay_out(tensor, "channels_last" if layout == WEIGHTS else layout)


def has_one_order(shape: Sequence[int]) -> bool:
    """Return whether contiguous and channels_last give this shape the same order of elements."""
    return len(shape) in (4, 5) and (shape[1] == 1 or all(size == 1 for size in shape[2:]))


def layout_of(*tensors: "torch.Tensor") -> str:
    """Return the layout in which torch calls cuDNN with these tensors."""
    return "channels_last" if any(map(_is_channels_last, tensors)) else "contiguous"


def in_force(tensor: "torch.Tensor") -> str:
    """Return a tensor's type and layout, such as `bfloat16 channels_last`."""
    return f"{str(tensor.dtype).removeprefix('torch.')} {layout_of(tensor)}"


def _is_channels_last(tensor: "torch.Tensor") -> bool:
    """Return whether torch's `suggest_memory_format` would return channels_last."""
    if tensor.dim() not in (4, 5) or tensor.stride(1) == 0:
        return False
    least = 0
    for place in (1, *range(tensor.dim() - 1, 1, -1), 0):
        size, stride = tensor.shape[place], tensor.stride(place)
        if size == 0 or stride < least or (place == 0 and least == tensor.stride(1)):
            return False
        least = stride * size
    return True
