"""What an audited process hands over: values that go through a file as JSON."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

SCHEMA_VERSION = 4

Value = bool | int | float | str | None
Sizes = tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    file: str
    line: int
    function: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Write:
    """A flag or an environment variable that was set; writes from one line with the same values are one."""

    kind: Literal["flag", "variable"]
    name: str
    before: Value
    after: Value
    at: Place
    """The innermost frame outside of torch."""
    called_from: Place | None
    """The innermost frame of the user's own code in another file."""
    times: int
    at_call: int
    """How many convolutions had been called when it was first written."""


@dataclass(kw_only=True, slots=True)
class Convolution:
    """Calls for which PyTorch's plan cache has the same key, up to `deterministic` the fields of which it is
    made; the alignment of pointers is left out.
    """

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
    """The number of its first call among all convolutions."""
    benchmark_at_first: bool
    """Later calls use the plan that the first one chose."""
    autocast_at_first: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class InputShape:
    """The first tensor of floats among a model's arguments, else the first of whole numbers, by its shape."""

    shape: Sizes
    training: int
    """Calls that recorded gradients."""
    inference: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Argument:
    """What a model was called with, in all calls that recorded gradients or in all others."""

    training: bool
    name: str | int
    """Or its place."""
    key: str | None
    """In a dict."""
    kind: str
    """A tensor's dtype, else a type; `various` of several."""
    shape: tuple[tuple[int | str, ...], ...] | None
    """Of a tensor; what each size was in every call: a number, a size of the input."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Making:
    """How an instance of a class was made."""

    at: Place
    """The innermost frame of the user's own code."""
    arguments: dict[str, Any]
    """Plain values, by the name of the parameter."""
    others: list[str]
    """The other ones: name and type."""


@dataclass(kw_only=True, slots=True)
class Model:
    """An outermost torch.nn.Module that runs convolutions, or has some that are not seen."""

    name: str
    module: str
    file: str | None
    wrapped_in: str | None
    made: Making | None
    """None of a copy."""
    elements: int
    """Of all its parameters."""
    parameters: tuple[str, ...]
    """Of `forward`."""
    arguments: tuple[Argument, ...] = ()
    own_loss: bool = False
    """Whether it returned a loss in its last call that recorded gradients."""
    calls: int = 0
    convolutions: int = 0
    """Calls of convolutions within its calls."""
    in_a_call: tuple[tuple[bool, int], ...] = ()
    """(whether gradients were recorded, convolutions), as they came in calls."""
    unseen: Literal["compiled"] | None
    """Why its convolutions, or some of them, are not seen."""
    without_shape: int = 0
    """Calls with no tensor of numbers that has two or more sizes among the arguments."""
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
    """Calls after the 100,000 distinct ones that are kept, or of tensors without strides."""
    arrivals: tuple[tuple[int, int], ...]
    """(calls, distinct convolutions by then)."""
    new_in_last_tenth: int
    convolutions: tuple[Convolution, ...]
    models: tuple[Model, ...]
    own_errors: tuple[str, ...]
    """What went wrong in the audit itself: calls may be missing."""


class OwnErrors(AbstractContextManager["OwnErrors"]):
    """A context that keeps the errors of its block, which are none of the user's script, and remembers them."""

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
