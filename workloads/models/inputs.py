"""Inputs other than one float tensor: token ids, masks, labels, several tensors."""

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
    """A random or constant tensor that a model is called with."""

    model_config = STRICT

    shape: list[Annotated[int, Field(ge=1, lt=2**31)] | SizeName]
    """Each size is a number, or the name of a size of the cell's `input`: batch, channels, depth,
    height or width. If there is only one spatial size, its name is length. Regimes and the cell's
    `batch` change only named sizes. `[]` is a scalar."""
    dtype: Literal["int64", "int32", "uint8", "bool", "float32"] | None = None
    """Default: floating point, in the cell's precision and layout."""
    below: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    """Random whole numbers are 0 or more and below this bound, such as the size of a vocabulary or
    the number of classes."""
    value: bool | int | float | None = None
    """Every element has this value, such as 1 in a mask that hides nothing. Default: random
    numbers."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        whole = self.dtype in WHOLE
        if whole and (self.below is None) == (self.value is None):
            given = "neither" if self.below is None else "both"
            raise ValueError(f"{self.dtype} takes either `below` or `value`, found {given}")
        if not whole and self.below is not None:
            raise ValueError(
                f"`below` needs a dtype of {', '.join(WHOLE)}; found {self.dtype or 'no dtype'}"
            )
        if self.dtype == "uint8" and max(self.below or 0, (self.value or 0) + 1) > 256:
            raise ValueError("uint8 holds 0 to 255, found a larger value")
        if whole and isinstance(self.value, float):
            raise ValueError(f"{self.dtype} takes a whole number, found {self.value}")
        return self

    def sizes(self, shape: Shape) -> Shape:
        sizes = named_sizes(shape)
        for size in self.shape:
            if isinstance(size, str) and size not in sizes:
                raise WorkloadError(
                    f"model.inputs: found the size {size!r}; the input {sizes_text(shape)} has "
                    f"{', '.join(sizes)}"
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
    """Raise WorkloadError if `inputs` use an unknown size, or lack the batch or a varying size."""
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
                f"model {model}: model.inputs: found no shape with {' or '.join(wanted)}{by}; write sizes "
                f"by name, as in `shape: [batch, {space_names(shape)[0]}]`"
            )


def _tensors(inputs: list[Argument] | Named) -> Iterator[TensorSpec]:
    for argument in inputs.values() if isinstance(inputs, dict) else inputs:
        yield from [argument] if isinstance(argument, TensorSpec) else argument.values()


Called = tuple[tuple[Any, ...], dict[str, Any]]
"""(positional arguments, keyword arguments) of one call of a model."""


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
    """Wrap a user's function that returns a dict of keyword arguments, a list of arguments, or one argument."""
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
    """Return a hint to print after the error of a user's model, or an empty text.

    `shape`: the shape of the model's input.
    """
    from cudnn_sweep.workloads.models.remedies import remedy_of

    try:
        remedy = remedy_of(error, shape)
    except Exception:  # noqa: BLE001  # frames may be unlike any known one
        return ""
    return remedy and TRY + remedy
