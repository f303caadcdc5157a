"""What the files of a folder declare: adding a thing is adding its file."""

from collections.abc import Collection, Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def declared(folder: ModuleType, kind: type[T], *, may_lack: Collection[str] = ()) -> list[T]:
    """All of that kind in the folder's modules, in the order of the modules' names.

    `may_lack`: a module that imports one of these packages is left out where the package is missing.
    """
    values = [value for module in _modules(folder, may_lack) for value in vars(module).values()]
    return list(dict.fromkeys(value for value in values if isinstance(value, kind)))


def _modules(folder: ModuleType, may_lack: Collection[str]) -> Iterator[ModuleType]:
    for found in iter_modules(folder.__path__):
        try:
            yield import_module(f"{folder.__name__}.{found.name}")
        except ModuleNotFoundError as error:
            if error.name not in may_lack:
                raise
