"""Findings of an audited process: values that go through a file as JSON."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

SCHEMA_VERSION = 4

Value = bool | int | float | str | None
Sizes = tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceLine:
    file: str
    line: int
    function: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Write:
    """Equal writes of a flag or environment variable from one line; `times` is their number."""

    kind: Literal["flag", "variable"]
    name: str
    before: Value
    after: Value
    at: SourceLine
    """The innermost frame outside of torch."""
    called_from: SourceLine | None
    """The innermost frame of the user's own code in another file."""
    times: int
    at_call: int
    """How many convolutions had been called before the first of these writes."""


@dataclass(kw_only=True, slots=True)
class Convolution:
    """Calls that agree in all fields from `operation` to `deterministic`. With the alignment of
    pointers, which is left out here, these fields are the key of PyTorch's plan cache."""

    operation: str
    input: Sizes
    weight: Sizes
    stride: Sizes
    padding: Sizes | str
    dilation: Sizes
    groups: int
    output_padding: Sizes
    dtype: str
    memory_format: str
    device: str
    allow_tf32: bool
    deterministic: bool
    calls: int = 0
    calls_with_benchmark: int = 0
    arrived_at: int
    """Number of its first call, if all calls of convolutions are numbered from 1."""
    benchmark_at_first: bool
    """Whether `benchmark` was on at the first call, whose plan later calls use."""
    autocast_at_first: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class InputShape:
    """Shape of a model's input: of its first float tensor, or else of its first integer tensor."""

    shape: Sizes
    training: int
    """Calls that recorded gradients."""
    inference: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Argument:
    """An argument of a model, merged over calls that recorded gradients, or calls that did not."""

    training: bool
    name: str | int
    """The keyword, or the position of a positional argument."""
    key: str | None
    """Key of a dict's part, dotted if nested; None: the argument is no dict."""
    kind: str
    """A tensor's dtype, another value's type, or `various` if calls differ."""
    shape: tuple[tuple[int | str, ...], ...] | None
    """By dimension, all that its size always equalled: a number, names of the input's sizes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Making:
    """How an instance of a class was made."""

    at: SourceLine
    """The innermost frame of the user's own code."""
    arguments: dict[str, Any]
    """Plain values, by the name of the parameter."""
    others: list[str]
    """Name and type of the other arguments."""


@dataclass(kw_only=True, slots=True)
class Model:
    """An outermost torch.nn.Module that ran convolutions, or has compiled ones, which go unseen."""

    name: str
    module: str
    file: str | None
    wrapped_in: str | None
    made: Making | None
    """How it was made; None: it is a copy."""
    elements: int
    """Number of elements of all its parameters."""
    parameters: tuple[str, ...]
    """Parameters of `forward`."""
    arguments: tuple[Argument, ...] = ()
    own_loss: bool = False
    """Whether it returned a loss in its last call that recorded gradients."""
    calls: int = 0
    convolutions: int = 0
    """Calls of convolutions within its calls."""
    in_a_call: tuple[tuple[bool, int], ...] = ()
    """Distinct pairs, over its calls: whether gradients were recorded, number of convolutions."""
    unseen: Literal["compiled"] | None
    """Why its convolutions, or some of them, are not seen."""
    without_shape: int = 0
    """Calls without a numeric tensor of two or more dimensions."""
    shapes: tuple[InputShape, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    schema_version: int
    python: str
    torch: str | None
    """None: the script did not import it."""
    cuda: str | None
    gpu: str | None
    """None: the script did not use CUDA."""
    cudnn: int | None
    wall_s: float
    limit_reached: bool
    error: str | None
    """The class of an exception that ended the script."""
    writes: tuple[Write, ...]
    flags_at_end: dict[str, Value]
    variables_at_start: dict[str, str]
    calls: int
    not_told_apart: int
    """Calls counted without sizes: beyond 100,000 distinct ones, or of tensors without strides."""
    arrivals: tuple[tuple[int, int], ...]
    """(number of calls from the start, distinct convolutions among them)."""
    new_in_last_tenth: int
    convolutions: tuple[Convolution, ...]
    models: tuple[Model, ...]
    own_errors: tuple[str, ...]
    """Errors of the audit itself: calls may be missing."""


class OwnErrors(AbstractContextManager["OwnErrors"]):
    """A context that catches the audit's own errors and keeps their texts."""

    def __init__(self) -> None:
        self.texts: set[str] = set()

    def __exit__(
        self, _: object, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        line = traceback.tb_lineno if traceback is not None else 0
        self.texts.add(f"{type(error).__name__} at line {line}: {error}")
        return True
