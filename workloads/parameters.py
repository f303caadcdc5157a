"""What is written as a name with numbers: a regime, a state."""

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
    """A parameter with this default, and the LIMITS of its values."""
    return field(default=default, metadata=limits)


def check_limits(what: str, made: Any) -> None:
    """Raises WorkloadError for a parameter of the dataclass that is beyond its limits."""
    for each in fields(made):
        value = getattr(made, each.name)
        if not all(LIMITS[kind][1](value, limit) for kind, limit in each.metadata.items()):
            allowed = " and ".join(f"{LIMITS[kind][0]} {n}" for kind, n in each.metadata.items())
            raise WorkloadError(f"{what}: {each.name} must be {allowed}, found {value}")


def name_and_numbers(kind: str, choice: NamedChoice) -> tuple[str, dict[str, float]]:
    """Raises WorkloadError where there is more than one name."""
    if isinstance(choice, str):
        return choice, {}
    if len(choice) != 1:
        raise WorkloadError(f"a {kind} is one name with its parameters, found {', '.join(choice)}")
    ((name, parameters),) = choice.items()
    return name, parameters


def parameter_types(made: type) -> dict[str, type]:
    """Of a dataclass's fields, by name; a file may have them as text."""
    hints = get_type_hints(made)
    return {field.name: hints[field.name] for field in fields(cast(Any, made))}


def make_from_parameters(
    kind: str, types: Mapping[str, type[T]], name: str, parameters: dict[str, float]
) -> T:
    """An instance of the dataclass of that name, whose fields are whole or real numbers.

    Raises WorkloadError for an unknown name or parameter, or a number that it does not take.
    """
    if name not in types:
        raise unknown(kind, name, list(types))
    made = types[name]
    values = checked_numbers(f"{kind} {name}", parameter_types(made), parameters)
    return made(**values)


def checked_numbers(
    what: str, wanted: Mapping[str, type], given: Mapping[str, float]
) -> dict[str, float]:
    """As whole or real numbers. Raises WorkloadError for a parameter or a number that `what` does not take."""
    values: dict[str, float] = {}
    for parameter, value in given.items():
        if parameter not in wanted:
            allowed = ", ".join(wanted) or "it takes none"
            raise WorkloadError(f"{what}: unknown parameter {parameter!r}; allowed: {allowed}")
        if not math.isfinite(value):
            raise WorkloadError(f"{what}: {parameter} must be finite, found {value}")
        if wanted[parameter] is int and value != int(value):
            raise WorkloadError(f"{what}: {parameter} must be a whole number, found {value}")
        values[parameter] = wanted[parameter](value)
    return values
