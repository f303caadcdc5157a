"""Reads a name with parameters. Suites name regimes, states and optimisers in this form."""

import math
import operator
from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, TypeVar, cast, get_type_hints

from cudnn_sweep.workloads.errors import WorkloadError, unknown

T = TypeVar("T")

NamedChoice = str | dict[str, dict[str, float]]

LIMITS = {
    "least": ("at least", operator.ge),
    "most": ("at most", operator.le),
    "above": ("above", operator.gt),
    "below": ("below", operator.lt),
}


def number(default: float, **limits: float) -> Any:
    """Declare a dataclass field for a number. `limits` has keys of LIMITS, such as `least=1`."""
    return field(default=default, metadata=limits)


def check_limits(owner: str, made: Any) -> None:
    for parameter in fields(made):
        value, limits = getattr(made, parameter.name), parameter.metadata.items()
        if not all(LIMITS[kind][1](value, limit) for kind, limit in limits):
            allowed = " and ".join(f"{LIMITS[kind][0]} {limit}" for kind, limit in limits)
            raise WorkloadError(f"{owner}: {parameter.name} must be {allowed}, found {value}")


def name_and_numbers(kind: str, choice: NamedChoice) -> tuple[str, dict[str, float]]:
    if isinstance(choice, str):
        return choice, {}
    if len(choice) != 1:
        raise WorkloadError(f"a {kind} is one name with its parameters, found {', '.join(choice)}")
    ((name, parameters),) = choice.items()
    return name, parameters


def parameter_types(made: type) -> dict[str, type]:
    hints = get_type_hints(made)
    return {field.name: hints[field.name] for field in fields(cast(Any, made))}


def make_from_parameters(
    kind: str, types: Mapping[str, type[T]], name: str, parameters: dict[str, float]
) -> T:
    """Return an instance of `types[name]`. Raises WorkloadError for a wrong name or number."""
    if name not in types:
        raise unknown(kind, name, list(types))
    made = types[name]
    return made(**checked_numbers(f"{kind} {name}", parameter_types(made), parameters))


def checked_numbers(
    owner: str, wanted: Mapping[str, type], given: Mapping[str, float]
) -> dict[str, float]:
    """Convert the numbers to the wanted types. Raises WorkloadError for a wrong name or number."""
    values: dict[str, float] = {}
    for parameter, value in given.items():
        if parameter not in wanted:
            allowed = ", ".join(wanted) or "none"
            raise WorkloadError(f"{owner}: unknown parameter {parameter!r}; allowed: {allowed}")
        if not math.isfinite(value):
            raise WorkloadError(f"{owner}: {parameter} must be finite, found {value}")
        if wanted[parameter] is int and value != int(value):
            raise WorkloadError(f"{owner}: {parameter} must be a whole number, found {value}")
        values[parameter] = wanted[parameter](value)
    return values
