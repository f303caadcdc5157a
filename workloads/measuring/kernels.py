"""Which kernels a step launches, and what each is for."""

import re

from cudnn_sweep.workloads.cells.measurement import KernelKind, KernelLaunch
from cudnn_sweep.workloads.hashes import content_hash

# cuDNN's kernels that only bring tensors into another order.
LAYOUT = re.compile(
    r"nchwTo(Folded)?Nhwc|(nhwc|folded|foldedNhwc)ToNchw|nchw2nhwc|nhwc2nchw|tensorTransform",
    re.IGNORECASE,
)
COPY = "direct_copy_kernel"  # PyTorch's own, inside a convolution: `weight.contiguous(...)`
MEMORY = ("memset", "memcpy")

# Only where the operation that launched a kernel is unknown.
CONVOLVES = re.compile(
    r"[fdw](prop|grad)|conv|winograd|implicit_gemm|fft2d|cudnn|flip_filter", re.IGNORECASE
)


def kind_of(name: str, operation: str | None) -> KernelKind:
    """`operation`: PyTorch's that launched it, None where that is unknown."""
    if LAYOUT.search(name) or (_convolves(operation) and COPY in name):
        return "layout_conversion"
    if name in MEMORY:
        return "other"
    convolves = _convolves(operation) if operation else CONVOLVES.search(name)
    return "convolution" if convolves else "other"


def _convolves(operation: str | None) -> bool:
    """Also where a user's code calls cuDNN's own, as `cudnn_convolution_relu`."""
    return operation is not None and "convolution" in operation


def kernels_hash(kernels: list[KernelLaunch]) -> str | None:
    """The same where the convolutions run the same kernels in the same order and grids; None without."""
    ran = [(kernel.name, kernel.grid) for kernel in kernels if kernel.kind == "convolution"]
    return content_hash(ran) if ran else None
