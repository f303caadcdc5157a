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
    """Writes of a flag or environment variable, equal in all fields but `times` and `at_call`."""

    kind: Literal["flag", "variable"]
    name: str
    before: Value
    after: Value
    at: SourceLine
    """Innermost frame outside torch, or inside torch if torch set the flag unasked."""
    called_from: SourceLine | None
    """Innermost frame of the user's code outside the file of `at`. None if no frame is outside."""
    times: int
    at_call: int
    """Number of convolution calls before the first of these writes."""


@dataclass(kw_only=True, slots=True)
class Convolution:
    """Convolution calls that are equal in all fields from `operation` to `deterministic`. These
    fields and the alignment of pointers make up the key of PyTorch's plan cache."""

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
    """Position of this convolution's first call among the calls of all convolutions, from 1."""
    benchmark_at_first: bool
    """Whether `benchmark` was on at the first call. Later calls use the first call's plan."""
    autocast_at_first: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class InputShape:
    """Shape of the first float tensor in a model's call, or else of the first integer tensor."""

    shape: Sizes
    training: int
    """Number of calls that recorded gradients."""
    inference: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Argument:
    """An argument of a model, taken over training calls if `training`, else over other calls."""

    training: bool
    name: str | int
    """The argument's keyword or, if it has none, its position."""
    key: str | None
    """The value's key in a dict argument, `a.b` in a nested dict. None for other arguments."""
    kind: str
    """The dtype of a tensor, or the type of any other value. `various` if calls differ in it."""
    shape: tuple[tuple[int | str, ...], ...] | None
    """For each dimension, its size if constant, and the names of input sizes always equal to it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Making:
    """How the script made a module."""

    at: SourceLine
    """The innermost frame of the user's own code."""
    arguments: dict[str, Any]
    """Arguments that a suite can contain, by the parameter's name."""
    others: list[str]
    """Name and type of each argument that a suite cannot contain."""


@dataclass(kw_only=True, slots=True)
class Model:
    """Equal outermost modules whose convolutions ran or were compiled by torch.compile."""

    name: str
    module: str
    file: str | None
    wrapped_in: str | None
    made: Making | None
    """How the script made the model. None if that is unknown, as for a copy."""
    elements: int
    """Number of elements in all its parameters together."""
    parameters: tuple[str, ...]
    """Names of the parameters of `forward`."""
    arguments: tuple[Argument, ...] = ()
    own_loss: bool = False
    """Whether the model itself returned a loss in its last call that recorded gradients."""
    calls: int = 0
    convolutions: int = 0
    """Number of convolution calls within the model's calls."""
    in_a_call: tuple[tuple[bool, int], ...] = ()
    """Distinct pairs (whether a call recorded gradients, number of convolution calls in it)."""
    unseen: Literal["compiled"] | None
    """Reason why some of the model's convolutions are not seen. None if all are seen."""
    without_shape: int = 0
    """Number of calls without a numeric tensor of two or more dimensions."""
    shapes: tuple[InputShape, ...] = ()


@dataclass(kw_only=True, slots=True)
class GpuLoop:
    """Times of the loop on one GPU, after the first five steps."""

    steps: int
    """Number of steps. A step with gradients includes its optimiser calls."""
    work_ms: float
    """Total time from each model call to the optimiser's end or, in inference, the call's end."""
    loop_ms: float
    """Total time from each step's start to the next step's start."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    schema_version: int
    python: str
    torch: str | None
    """Version of PyTorch. None if the script did not import torch."""
    cuda: str | None
    gpu: str | None
    """Name of the GPU. None if the script did not use CUDA."""
    cudnn: int | None
    wall_s: float
    limit_reached: bool
    error: str | None
    """Class of the exception that ended the script. None if there was none."""
    writes: tuple[Write, ...]
    flags_at_end: dict[str, Value]
    variables_at_start: dict[str, str]
    calls: int
    not_told_apart: int
    """Number of calls without noted sizes. Their tensors have no strides or are on the meta device,
    or 100,000 distinct calls had been noted already."""
    arrivals: tuple[tuple[int, int], ...]
    """Pairs of n and the number of distinct convolutions in the first n calls."""
    new_in_last_tenth: int
    convolutions: tuple[Convolution, ...]
    models: tuple[Model, ...]
    gpu_loop: GpuLoop | None
    """Times of the loop. None if no GPU ran a model, if too few steps ran, or if training used no
    optimiser of torch."""
    own_errors: tuple[str, ...]
    """Errors of the audit itself. If there are any, calls may be missing."""


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
