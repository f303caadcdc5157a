"""A trace: the request for a user's model, and the convolutions that the model ran."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from cudnn_sweep.workloads.problem import Shape, sizes_text

Direction = Literal["training", "inference"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceRequest:
    """One forward pass of a model at an input of this shape."""

    model: str
    """`package.module:name` or `folder/file.py:name` of a torch.nn.Module, class or factory."""
    input: Shape
    inputs: JsonValue
    """The model's inputs in the form of a suite; None: one float tensor."""
    arguments: dict[str, JsonValue]
    precision: str
    layout: str
    direction: Direction


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedConvolution:
    """One convolution, by the arguments of torch's operation."""

    input_shape: Shape
    weight_shape: Shape
    """The first size is the output's channels, the input's if transposed."""
    bias: bool
    stride: Shape
    padding: Shape
    dilation: Shape
    groups: int
    transposed: bool
    output_padding: Shape
    dtype: str
    precision: str | None
    """None: no Precision has this dtype."""
    layout: str
    route: str
    flops: int
    """2 × multiply-adds of its forward pass."""
    times: int = 1
    """How often one forward pass runs it."""

    @property
    def out_channels(self) -> int:
        return self.weight_shape[1] * self.groups if self.transposed else self.weight_shape[0]

    @property
    def kernel_size(self) -> Shape:
        return self.weight_shape[2:]


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedOperation:
    """One operation of a pass, with the layouts of its tensors of three or more dimensions."""

    name: str
    layer: str
    """Path and class of the module that ran it, as `down.0.norm (InstanceNorm3d)`."""
    takes: list[str]
    returns: list[str]
    """Layouts of the tensors that it wrote; a view writes none."""
    lost_by: int | None
    """Number of the operation that lost its input's layout; its own if it converts inside."""
    loses: bool
    """Whether it is the first to take channels_last and return contiguous."""
    pays: bool
    """Whether it converts its input into the other layout."""
    converts: bool
    """Whether it is nothing but a conversion."""
    conversion_ms: float | None = None
    """Device time of its conversions; None without a GPU."""


def losses_in(operations: Sequence[TracedOperation]) -> Mapping[int | None, list[TracedOperation]]:
    """Return the paying operations by the number of the operation that lost the layout, if any."""
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
    """The GPU's model, or the processor's."""
    convolutions: list[TracedConvolution]
    """Distinct convolutions, in the order of their first calls."""
    operations: list[TracedOperation]
    """The operations of the pass, in order."""
    on_gpu: bool

    @property
    def count(self) -> int:
        return sum(convolution.times for convolution in self.convolutions)

    @property
    def flops(self) -> int:
        return sum(convolution.times * convolution.flops for convolution in self.convolutions)

    def share(self, convolution: TracedConvolution) -> float:
        """Return a convolution's share of all forward FLOPs, over all its calls."""
        return convolution.times * convolution.flops / max(1, self.flops)

    def named(self) -> dict[str, TracedConvolution]:
        """Return the convolutions by number, kernel and output channels, as `conv1_7x7_64`."""
        return {
            f"conv{number}_{sizes_text(layer.kernel_size)}_{layer.out_channels}": layer
            for number, layer in enumerate(self.convolutions, start=1)
        }
