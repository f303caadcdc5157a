"""A trace of a user's model: its request, and the convolutions and operations that ran."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from cudnn_sweep.workloads.problem import Shape, sizes_text

Direction = Literal["training", "inference"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceRequest:
    model: str
    """Import path of a module, its class or factory: `pkg.module:name` or `folder/file.py:name`."""
    input: Shape
    inputs: JsonValue
    """The model's inputs, written as in a suite. None stands for one float tensor."""
    arguments: dict[str, JsonValue]
    precision: str
    layout: str
    direction: Direction


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedConvolution:
    """A distinct convolution of a model: the arguments of torch's operation, and how it ran."""

    input_shape: Shape
    weight_shape: Shape
    """Sizes of the weight: output channels first or, if transposed, input channels first."""
    bias: bool
    stride: Shape
    padding: Shape
    dilation: Shape
    groups: int
    transposed: bool
    output_padding: Shape
    dtype: str
    precision: str | None
    """Name of the precision of this convolution. None if no precision has this `dtype`."""
    layout: str
    route: str
    flops: int
    """FLOPs of one forward call: 2 × multiply-adds."""
    times: int = 1
    """How often one forward pass of the model runs this convolution."""

    @property
    def out_channels(self) -> int:
        return self.weight_shape[1] * self.groups if self.transposed else self.weight_shape[0]

    @property
    def kernel_size(self) -> Shape:
        return self.weight_shape[2:]


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedOperation:
    """One operation of a pass, with the layouts of its tensors that have three or more dimensions."""

    name: str
    layer: str
    """Path and class of the operation's module, such as `down.0.norm (InstanceNorm3d)`."""
    takes: list[str]
    returns: list[str]
    """Layouts of the tensors that the operation writes. A view writes no tensor."""
    lost_by: int | None
    """Number of the operation, maybe this one, that lost channels_last. None if none lost it."""
    loses: bool
    """Whether channels_last is lost in this operation, and not in an earlier one."""
    pays: bool
    """Whether this operation converts a layout. False for a copy that loses channels_last."""
    converts: bool
    """Whether this operation only copies from one layout to another."""
    conversion_ms: float | None = None
    """Device time spent on conversions; None without a GPU."""


def losses_in(operations: Sequence[TracedOperation]) -> Mapping[int | None, list[TracedOperation]]:
    """Map each operation that lost channels_last, by its number, to the conversions that it causes.

    Conversions without such a cause have the key None. An operation that causes no conversion is
    left out, unless the operation itself spent time on a conversion.
    """
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
    """Model of the GPU or, without a GPU, of the processor."""
    convolutions: list[TracedConvolution]
    """Distinct convolutions, in the order of their first calls."""
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
        """Return convolutions by name: number, filter size and channels, such as `conv1_7x7_64`."""
        return {
            f"conv{number}_{sizes_text(layer.kernel_size)}_{layer.out_channels}": layer
            for number, layer in enumerate(self.convolutions, start=1)
        }
