"""Does something as soon as a module has been imported, by whoever imports it."""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


def when_imported(name: str, do: Callable[[ModuleType], None]) -> None:
    sys.meta_path.insert(0, _Finder(name, do))


class _Finder(MetaPathFinder):
    def __init__(self, name: str, do: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._do = do

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and (loader := spec.loader) is not None:

            def exec_module(module: ModuleType) -> None:
                del loader.exec_module  # the module's own loader stays as it was
                loader.exec_module(module)
                self._do(module)

            loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
