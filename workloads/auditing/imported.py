"""Does something as soon as a module has been imported, by whoever imports it."""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
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
        if spec is not None and spec.loader is not None:
            spec.loader = _AndThen(spec.loader, self._do)
        return spec


class _AndThen(Loader):
    """The module's own loader, which is all that stays behind of it in the module."""

    def __init__(self, loader: Loader, do: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._do = do

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._do(module)
