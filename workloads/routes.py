"""Which backend PyTorch selects for each convolution of a step, by watching one untimed step."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

CONVOLUTION = torch.ops.aten.convolution.default


class WatchConvolutions(TorchDispatchMode):
    """Notes the route of every convolution that runs inside it; backward passes follow their forward's."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.routes: list[str] = []

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is CONVOLUTION:
            self.routes.append(_route(*args))
        return func(*args, **(kwargs or {}))


def _route(
    images: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> str:
    """The name in torch's `ConvBackend`, for example Cudnn, CudaDepthwise2d, Mkldnn."""
    sizes = (stride, padding, dilation, transposed, output_padding, groups)
    return str(torch._C._select_conv_backend(images, weight, bias, *sizes).name)
