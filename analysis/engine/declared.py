"""Finds the values that a folder's modules declare, so that a new file adds a figure or a page."""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def declared(folder: ModuleType, kind: type[T]) -> list[T]:
    """Return all module-level values of type `kind` in the folder, in the order of file names."""
    modules = [
        import_module(f"{folder.__name__}.{each.name}") for each in iter_modules(folder.__path__)
    ]
    values = [value for module in modules for value in vars(module).values()]
    return list(dict.fromkeys(value for value in values if isinstance(value, kind)))
