"""Values declared in the modules of a folder: to add a figure or a page, add its file."""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def declared(folder: ModuleType, kind: type[T]) -> list[T]:
    """Return all values of a kind in the folder's modules, in the order of the modules' names."""
    modules = [
        import_module(f"{folder.__name__}.{each.name}") for each in iter_modules(folder.__path__)
    ]
    values = [value for module in modules for value in vars(module).values()]
    return list(dict.fromkeys(value for value in values if isinstance(value, kind)))
