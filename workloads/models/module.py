"""A torch.nn.Module from what an import path names: its class, a function that returns it, or itself."""

from copy import deepcopy
from inspect import signature
from types import FunctionType

from pydantic import JsonValue
from torch import nn

from cudnn_sweep.workloads.errors import WorkloadError

Source = type[nn.Module] | FunctionType | nn.Module

ALLOWED = "a class derived from torch.nn.Module, a function that returns one, or one itself"


def is_source(found: object) -> bool:
    if isinstance(found, type):
        return issubclass(found, nn.Module)
    return isinstance(found, FunctionType | nn.Module)


def make_module(name: str, source: Source, arguments: dict[str, JsonValue]) -> nn.Module:
    """A new one at each call. Raises WorkloadError with what is wrong."""
    if isinstance(source, nn.Module):
        if arguments:
            found = ", ".join(arguments)
            raise WorkloadError(f"model {name} is a module already: no arguments, found {found}")
        return deepcopy(source)
    try:
        signature(source).bind(**arguments)
    except TypeError as error:
        raise WorkloadError(
            f"model {name}: {error}; allowed as arguments: {signature(source)}"
        ) from error
    try:
        made = source(**arguments)
    except Exception as error:
        words = " ".join(str(error).split())
        raise WorkloadError(
            f"model {name} cannot be made: {type(error).__name__}: {words}"
        ) from error
    if not isinstance(made, nn.Module):
        raise WorkloadError(
            f"model {name} returned a {type(made).__name__}; allowed: a torch.nn.Module"
        )
    return made
