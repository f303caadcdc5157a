"""Finds the figures or pages that the modules of a package define."""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def declared(folder: ModuleType, kind: type[T]) -> list[T]:
    """Return all values of type `kind` in a package's modules, in the order of file names."""
    names = [f"{folder.__name__}.{each.name}" for each in iter_modules(folder.__path__)]
    values = [value for name in names for value in vars(import_module(name)).values()]
    return list(dict.fromkeys(value for value in values if isinstance(value, kind)))
