"""Findings that an audited process writes to a JSON file."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

SCHEMA_VERSION = 5

Value = bool | int | float | str | None
Sizes = tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceLine:
    file: str
    line: int
    function: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Write:
    """Writes of a flag or environment variable that have the same values and the same line."""

    kind: Literal["flag", "variable"]
    name: str
    before: Value
    after: Value
    at: SourceLine
    """Line that wrote the value. It is in torch if torch wrote the value by itself."""
    called_from: SourceLine | None
    """Line of another file of the user that led to the write, or None if there is none."""
    times: int
    at_call: int
    """Number of convolution calls before the first of these writes."""


@dataclass(kw_only=True, slots=True)
class Convolution:
    """Convolution calls that are equal in all fields from `operation` to `deterministic`."""

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
    """Position of the first call among all convolution calls, counted from 1."""
    benchmark_at_first: bool
    autocast_at_first: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class InputShape:
    shape: Sizes
    training: int
    """Number of calls that recorded gradients."""
    inference: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Argument:
    """An argument of a model. Training calls and other calls have separate entries."""

    training: bool
    name: str | int
    """Keyword of the argument, or its position if it has no keyword."""
    key: str | None
    """Key of the value in a dict, such as `a.b` in a nested dict, or None if it is in no dict."""
    kind: str
    """Type of the value or, for a tensor, its dtype. It is `various` if calls differ."""
    shape: tuple[tuple[int | str, ...], ...] | None
    """For each dimension, its size if it is constant, and the names of equal input sizes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Making:
    """The call with which the script made a module."""

    at: SourceLine
    arguments: dict[str, Any]
    """Arguments that a suite can contain, by the name of the parameter."""
    others: list[str]
    """Name and type of each argument that a suite cannot contain."""


@dataclass(kw_only=True, slots=True)
class Model:
    """A model with convolutions. Equal modules are regarded as one model."""

    name: str
    module: str
    file: str | None
    wrapped_in: str | None
    made: Making | None
    """The call that made the model, or None if it is unknown."""
    elements: int
    """Total number of elements in its parameters."""
    parameters: tuple[str, ...]
    """Names of the parameters of `forward`."""
    arguments: tuple[Argument, ...] = ()
    own_loss: bool = False
    """Whether the model returned a loss in its last call that recorded gradients."""
    calls: int = 0
    convolutions: int = 0
    """Number of convolution calls in all calls of the model."""
    in_a_call: tuple[tuple[bool, int], ...] = ()
    """Kinds of calls: whether a call recorded gradients, and how many convolutions it called."""
    unseen: Literal["compiled"] | None
    """Reason why some convolutions of the model are not counted, or None if all are."""
    without_shape: int = 0
    """Number of calls without a tensor that has two or more dimensions."""
    shapes: tuple[InputShape, ...] = ()


@dataclass(kw_only=True, slots=True)
class GpuLoop:
    """Times of a script's steps on one GPU, without the first five steps."""

    steps: int
    """Number of steps. In training, a step ends with the optimiser."""
    work_ms: float
    """Total time from each model call to its end or, in training, to the end of the optimiser."""
    loop_ms: float
    """Total time from the start of each step to the start of the next step."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    schema_version: int
    python: str
    torch: str | None
    """Version of PyTorch, or None if the script did not import it."""
    cuda: str | None
    gpu: str | None
    """Name of the GPU, or None if the script did not use CUDA."""
    cudnn: int | None
    wall_s: float
    limit_reached: bool
    error: str | None
    """Class of the exception that ended the script, or None if there was none."""
    writes: tuple[Write, ...]
    flags_at_end: dict[str, Value]
    variables_at_start: dict[str, str]
    calls: int
    not_told_apart: int
    """Number of calls whose sizes were not recorded."""
    arrivals: tuple[tuple[int, int], ...]
    """Pairs of a number n and of the number of distinct convolutions in the first n calls."""
    new_in_last_tenth: int
    convolutions: tuple[Convolution, ...]
    models: tuple[Model, ...]
    gpu_loop: GpuLoop | None
    """Times of the steps on a GPU, or None if they were not measured."""
    own_errors: tuple[str, ...]
    """Errors of the audit itself. If there are any, calls may be missing."""


class OwnErrors(AbstractContextManager["OwnErrors"]):
    """A context manager that catches errors of the audit and keeps their texts."""

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
