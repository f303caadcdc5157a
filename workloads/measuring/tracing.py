"""A trace of a user's model, with the convolutions and operations of one forward pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from cudnn_sweep.workloads.problem import Shape, sizes_text

Direction = Literal["training", "inference"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceRequest:
    model: str
    """Import path of the model: `pkg.module:name` or `folder/file.py:name`."""
    input: Shape
    inputs: JsonValue
    """Inputs of the model, written as in a suite. None means a single float tensor."""
    arguments: dict[str, JsonValue]
    precision: str
    layout: str
    direction: Direction


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedConvolution:
    """A distinct convolution of a model, with its arguments."""

    input_shape: Shape
    weight_shape: Shape
    """Shape of the weight. The output channels come first or, if transposed, the input channels."""
    bias: bool
    stride: Shape
    padding: Shape
    dilation: Shape
    groups: int
    transposed: bool
    output_padding: Shape
    dtype: str
    precision: str | None
    """Name of the precision, or None if no precision has this `dtype`."""
    layout: str
    route: str
    flops: int
    """FLOPs of one forward call, which are twice its multiply-adds."""
    times: int = 1
    """Number of calls in one forward pass of the model."""

    @property
    def out_channels(self) -> int:
        return self.weight_shape[1] * self.groups if self.transposed else self.weight_shape[0]

    @property
    def kernel_size(self) -> Shape:
        return self.weight_shape[2:]


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedOperation:
    """An operation of a model, with the layouts of its tensors."""

    name: str
    layer: str
    """Path and class of the module that ran it, such as `down.0.norm (InstanceNorm3d)`."""
    takes: list[str]
    returns: list[str]
    """Layouts of the tensors that the operation writes."""
    lost_by: int | None
    """Number of the operation that lost channels_last, or None if no operation lost it."""
    loses: bool
    """Whether this operation loses channels_last."""
    pays: bool
    """Whether this operation converts a layout. It is false for a copy that loses channels_last."""
    converts: bool
    """Whether this operation is a copy from one layout to another."""
    conversion_ms: float | None = None
    """Device time of its conversions, or None without a GPU."""


def losses_in(operations: Sequence[TracedOperation]) -> Mapping[int | None, list[TracedOperation]]:
    """Return conversions by the number of the operation that causes them, or by None if unknown."""
    payers: dict[int | None, list[TracedOperation]] = {}
    for number, operation in enumerate(operations):
        if operation.pays:
            payers.setdefault(operation.lost_by, []).append(operation)
        if operation.loses and operation.conversion_ms:
            payers.setdefault(number, [])
    return payers


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    request: TraceRequest
    torch: str
    device: str
    """Name of the GPU or, without a GPU, of the processor."""
    convolutions: list[TracedConvolution]
    """Distinct convolutions in the order of their first calls."""
    operations: list[TracedOperation]
    on_gpu: bool

    @property
    def count(self) -> int:
        return sum(convolution.times for convolution in self.convolutions)

    @property
    def flops(self) -> int:
        return sum(convolution.times * convolution.flops for convolution in self.convolutions)

    def share(self, convolution: TracedConvolution) -> float:
        return convolution.times * convolution.flops / max(1, self.flops)

    def named(self) -> dict[str, TracedConvolution]:
        """Return the convolutions with generated names, such as `conv1_7x7_64`."""
        return {
            f"conv{number}_{sizes_text(layer.kernel_size)}_{layer.out_channels}": layer
            for number, layer in enumerate(self.convolutions, start=1)
        }
