"""Which version of a user's code was measured: a hash of the source files behind what she named."""

import sys
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from types import FunctionType, ModuleType

from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.hashes import content_hash
from cudnn_sweep.workloads.user_code import module_of

INSTALLED = {"site-packages", "dist-packages"}
NOT_THE_USERS = {"__main__", "torch", __name__.partition(".")[0], *sys.stdlib_module_names}


def workload_hash(cell: Cell) -> str | None:
    """Hash of the code that the cell's workload, loss, inputs and regime name, once imported; None where it is
    torch's or ours.

    For `folder/file.py:name` that is the file, for `package.module:name` the file that defines the name,
    each with what was imported from the same folder or package. An installed package has its version in
    place of the latter.
    """
    named = [cell.workload, *([cell.model.loss] if cell.model else []), cell.own_regime or ""]
    if cell.model is not None and isinstance(cell.model.inputs, str):
        named.append(cell.model.inputs)
    contents = dict(content for name in named if ":" in name for content in _contents(name))
    return content_hash(contents) if contents else None


def _contents(reference: str) -> Iterator[tuple[str, str]]:
    place, _, name = reference.rpartition(":")
    module = module_of(place)
    found = getattr(module, name, None)
    if not place.endswith(".py") and isinstance(found, type | FunctionType):
        module = sys.modules.get(found.__module__)  # a package's __init__.py may only pass it on
    if module is None or _package(module) in NOT_THE_USERS:
        return
    if _is_installed(module):
        package = sys.modules[_package(module)]
        yield package.__name__, str(getattr(package, "__version__", None))
        beside = [module]
    else:
        loaded = [each for each in list(sys.modules.values()) if isinstance(each, ModuleType)]
        beside = [each for each in loaded if _is_beside(each, module)]
    for each in beside:
        file = _file(each)
        if file is not None:
            yield f"source of {each.__name__}", blake2b(file.read_bytes()).hexdigest()


def _is_beside(other: ModuleType, module: ModuleType) -> bool:
    """Whether `other` is of the module's package, or of its folder and not installed there; itself too."""
    if _package(other) == _package(module):
        return True
    file, place = _file(module), _file(other)
    if file is None or place is None or _package(other) in NOT_THE_USERS:
        return False
    return place.is_relative_to(file.parent) and not _is_installed(other)


def _is_installed(module: ModuleType) -> bool:
    file = _file(module)
    return file is not None and not INSTALLED.isdisjoint(file.parts)


def _package(module: ModuleType) -> str:
    return module.__name__.partition(".")[0]


def _file(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file) if file else None
