"""The layout of a tensor as torch hands it to cuDNN."""

import pytest
import torch

from cudnn_sweep.workloads.layout import layout_of

PLAIN = torch.empty(2, 6, 4, 4)
LAST = PLAIN.contiguous(memory_format=torch.channels_last)
VOLUME = torch.empty(2, 6, 3, 4, 4).contiguous(memory_format=torch.channels_last_3d)


@pytest.mark.parametrize(
    ("tensors", "layout"),
    [
        ((PLAIN,), "contiguous"),
        ((PLAIN, LAST), "channels_last"),
        ((VOLUME,), "channels_last"),
        ((LAST[:, :3],), "channels_last"),
        ((LAST[:, :, ::2],), "channels_last"),
        ((LAST[:, :1, :1, :1].contiguous(),), "contiguous"),
        ((torch.empty(2, 1, 4, 4).contiguous(memory_format=torch.channels_last),), "contiguous"),
        ((PLAIN[:, :1].expand(2, 6, 4, 4),), "contiguous"),
        ((LAST[:0],), "contiguous"),
        ((LAST[0],), "contiguous"),
    ],
)
def test_layout_is_told_by_the_strides(tensors: tuple[torch.Tensor, ...], layout: str) -> None:
    """Also of a part of an image's channels or rows, which is not dense."""
    assert layout_of(*tensors) == layout
