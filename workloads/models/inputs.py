"""Inputs of models that take something other than one float tensor, such as token ids."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    TypeAdapter,
    model_validator,
)

from cudnn_sweep.workloads.errors import TRY, WorkloadError
from cudnn_sweep.workloads.problem import Shape, named_sizes, sizes_text, space_names
from cudnn_sweep.workloads.strict import STRICT
from cudnn_sweep.workloads.user_code import import_named

if TYPE_CHECKING:
    from cudnn_sweep.workloads.workload import Context

SizeName = Literal["batch", "channels", "length", "depth", "height", "width"]
PARTS = {"batch": "batch", "length": "space", "depth": "space", "height": "space", "width": "space"}
WHOLE = ("int64", "int32", "uint8")


class TensorSpec(BaseModel):
    """A random or constant tensor as an argument of a model."""

    model_config = STRICT

    shape: list[Annotated[int, Field(ge=1, lt=2**31)] | SizeName]
    """Sizes of the tensor. Each is a number, or the name of a size of the cell's `input`: batch,
    channels, length, depth, height or width. Regimes change only sizes that are names."""
    dtype: Literal["int64", "int32", "uint8", "bool", "float32"] | None = None
    """Type of the elements. The default is floating point in the cell's precision."""
    below: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    """Exclusive upper bound of random whole numbers, such as the number of classes."""
    value: bool | int | float | None = None
    """Value of all elements. By default, elements are random numbers."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        whole = self.dtype in WHOLE
        if whole and (self.below is None) == (self.value is None):
            given = "neither" if self.below is None else "both"
            raise ValueError(f"{self.dtype} needs either `below` or `value`, found {given}")
        if not whole and self.below is not None:
            raise ValueError(
                f"`below` needs a dtype of {', '.join(WHOLE)}; found {self.dtype or 'no dtype'}"
            )
        if self.dtype == "uint8" and max(self.below or 0, (self.value or 0) + 1) > 256:
            raise ValueError("uint8 allows numbers up to 255, found a larger number")
        if whole and isinstance(self.value, float):
            raise ValueError(f"{self.dtype} takes a whole number, found {self.value}")
        return self

    def sizes(self, shape: Shape) -> Shape:
        sizes = named_sizes(shape)
        for size in self.shape:
            if isinstance(size, str) and size not in sizes:
                raise WorkloadError(
                    f"model.inputs: found the size {size!r}, but the input {sizes_text(shape)} "
                    f"has the sizes {', '.join(sizes)}"
                )
        return tuple(sizes[size] if isinstance(size, str) else size for size in self.shape)

    def make(self, shape: Shape, context: "Context") -> Any:
        import torch

        sizes = self.sizes(shape)
        if self.dtype is None:
            if self.value is None:
                return context.random(sizes)
            return context.like_inputs(torch.full(sizes, float(self.value)))
        kind, device = getattr(torch, self.dtype), context.device
        if self.value is not None:
            return torch.full(sizes, self.value, dtype=kind, device=device)
        if self.dtype == "float32":
            return torch.randn(sizes, device=device)
        return torch.randint(self.below or 2, sizes, device=device).to(kind)


def _kind(given: object) -> str:
    inner = list(given.values()) if isinstance(given, Mapping) else []
    is_named = inner and all(isinstance(tensor, Mapping | BaseModel) for tensor in inner)
    return "named" if is_named else "tensor"


def _reference(name: str) -> str:
    if ":" not in name:
        raise ValueError(f"expected FILE.py:NAME (a function that takes a shape), found {name!r}")
    return name


Named = dict[str, TensorSpec]
Argument = Annotated[
    Annotated[TensorSpec, Tag("tensor")] | Annotated[Named, Tag("named")], Discriminator(_kind)
]
Inputs = Annotated[str, AfterValidator(_reference)] | list[Argument] | Named
INPUTS: TypeAdapter[Inputs] = TypeAdapter(Inputs)


def as_json(inputs: Inputs | None) -> JsonValue:
    if inputs is None:
        return None
    return INPUTS.dump_python(inputs, mode="json", exclude_none=True)  # type: ignore[no-any-return]


def check_inputs(
    inputs: Inputs | None, model: str, shape: Shape, regime: str, varies: set[str]
) -> None:
    """Raise WorkloadError if `inputs` name an unknown size, or lack the batch or a varied size."""
    if inputs is None or isinstance(inputs, str):
        return
    tensors = list(_tensors(inputs))
    for tensor in tensors:
        tensor.sizes(shape)
    names = {size for tensor in tensors for size in tensor.shape if isinstance(size, str)}
    for part in sorted({"batch", *varies}):
        wanted = [name for name in named_sizes(shape) if PARTS.get(name) == part]
        if names.isdisjoint(wanted):
            by = f", which regime {regime} varies" if part in varies else ""
            raise WorkloadError(
                f"model {model}: model.inputs: found no shape with {' or '.join(wanted)}{by}; "
                f"write sizes by name, as in `shape: [batch, {space_names(shape)[0]}]`"
            )


def _tensors(inputs: list[Argument] | Named) -> Iterator[TensorSpec]:
    for argument in inputs.values() if isinstance(inputs, dict) else inputs:
        yield from [argument] if isinstance(argument, TensorSpec) else argument.values()


Called = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional arguments and keyword arguments for one call of a model."""


def make_prepare(inputs: JsonValue, context: "Context") -> Callable[[Shape], Called]:
    if isinstance(inputs, str):
        return _made_by(inputs, context)
    spec = INPUTS.validate_python(inputs)

    def make(argument: Argument, shape: Shape) -> Any:
        if isinstance(argument, TensorSpec):
            return argument.make(shape, context)
        return {name: tensor.make(shape, context) for name, tensor in argument.items()}

    def prepare(shape: Shape) -> Called:
        assert not isinstance(spec, str)
        if isinstance(spec, dict):
            return (), {name: make(argument, shape) for name, argument in spec.items()}
        return tuple(make(argument, shape) for argument in spec), {}

    return prepare


def _made_by(name: str, context: "Context") -> Callable[[Shape], Called]:
    """Wrap a user's function that makes the arguments of a model."""
    import torch
    from torch.utils._pytree import tree_map_only

    function = import_named(name)
    if not callable(function):
        raise WorkloadError(f"inputs: {name} is a {type(function).__name__}; allowed: a function")

    def placed(tensor: torch.Tensor) -> torch.Tensor:
        floating = tensor.is_floating_point()
        return context.like_inputs(tensor) if floating else tensor.to(context.device)

    def prepare(shape: Shape) -> Called:
        made = tree_map_only(torch.Tensor, placed, function(shape))
        if isinstance(made, dict):
            return (), made
        return (tuple(made) if isinstance(made, tuple | list) else (made,)), {}

    return prepare


def what_to_try(error: BaseException, shape: Shape) -> str:
    """Return a hint that is printed after the error of a user's model, or an empty text."""
    from cudnn_sweep.workloads.models.remedies import remedy_of

    try:
        remedy = remedy_of(error, shape)
    except Exception:  # noqa: BLE001  # a hint is not worth an error
        return ""
    return remedy and TRY + remedy
