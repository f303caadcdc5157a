"""Imports and hashes the user's code, in a process that ends afterwards."""

import os
import sys
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from hashlib import blake2b
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from itertools import chain, count
from pathlib import Path
from types import FunctionType, ModuleType

from cudnn_sweep.workloads.errors import UserCodeError, WorkloadError, unknown
from cudnn_sweep.workloads.hashes import content_hash

INSTALLED = {"site-packages", "dist-packages"}
NOT_THE_USERS = {"__main__", "torch", __name__.partition(".")[0], *sys.stdlib_module_names}
EXTRAS = {"torchvision": "vision", "monai": "medical"}  # package: extra that installs it
PIP_NAMES = {  # import name: name for pip
    "PIL": "pillow",
    "cv2": "opencv-python",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "yaml": "pyyaml",
}


def import_named(reference: str) -> object:
    """Import the object named `package.module:name` or `folder/file.py:name`.

    Raises WorkloadError if it is missing, and UserCodeError if its code fails.
    """
    place, _, name = reference.rpartition(":")
    if place.endswith(".py") and not Path(place).is_file():
        raise WorkloadError(_no_file(Path(place)))
    importer = os.getpid()
    try:
        module = _import_file(Path(place)) if place.endswith(".py") else import_module(place)
    except Exception as error:
        kind = WorkloadError if _is_missing(place, error) else UserCodeError
        raise kind(f"{place} cannot be imported: {_reason(place, error)}") from error
    finally:
        if os.getpid() != importer:
            os._exit(0)  # the module forked this process
    if not hasattr(module, name):
        public = {key: value for key, value in vars(module).items() if not key.startswith("_")}
        names = [key for key, value in public.items() if not isinstance(value, ModuleType)]
        raise unknown(f"name in {place}", name, names)
    value: object = getattr(module, name)
    return value


def _no_file(file: Path) -> str:
    folder = file.parent
    there = sorted(path.name for path in folder.glob("*.py"))
    near = get_close_matches(file.name, there)
    guess = f" (did you mean {folder / near[0]}?)" if near else ""
    return f"there is no file {file} in {Path.cwd()}{guess}"


def _is_missing(place: str, error: Exception) -> bool:
    return isinstance(error, ModuleNotFoundError) and f"{place}.".startswith(f"{error.name}.")


def _reason(place: str, error: Exception) -> str:
    cause = f"{type(error).__name__}: {error}"
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return cause
    package, _, inner = error.name.partition(".")
    folder = Path(place).parent
    is_beside = any((folder / name).exists() for name in (package, f"{package}.py"))
    if not inner and place.endswith(".py") and is_beside:
        return f"{package} is beside the file: run sweep in {folder}, or add {folder} to PYTHONPATH"
    if not inner:
        extra = f"'cudnn-sweep[{EXTRAS[package]}]'" if package in EXTRAS else None
        return f"{package} is not installed; pip install {extra or PIP_NAMES.get(package, package)}"
    if _is_missing(place, error):
        return f"{package} is installed, but it has no module {inner}"
    return cause


def module_of(place: str) -> ModuleType | None:
    return sys.modules.get(_file_module(Path(place)) if place.endswith(".py") else place)


def _file_module(file: Path) -> str:
    """Return a module name for a file. A number makes the name unique."""
    first, path = f"sweep_user_{file.stem}", str(file.resolve())
    names = chain([first], (f"{first}_{number}" for number in count(2)))
    return next(n for n in names if n not in sys.modules or sys.modules[n].__file__ == path)


def _import_file(file: Path) -> ModuleType:
    """Import a file, or return its module if the file was imported before."""
    name = _file_module(file)
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, file.resolve())
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def code_hash(references: Iterable[str]) -> str | None:
    """Return a hash of the user's code at these import paths. Return None if there is none.

    The hash covers all imported modules in the code's folder or package. For an installed package,
    it covers one file and the version.
    """
    contents = dict(content for name in references if ":" in name for content in _contents(name))
    return content_hash(contents) if contents else None


def _contents(reference: str) -> Iterator[tuple[str, str]]:
    place, _, name = reference.rpartition(":")
    module = module_of(place)
    value = getattr(module, name, None)
    if not place.endswith(".py") and isinstance(value, type | FunctionType):
        module = sys.modules.get(value.__module__)  # a package's __init__.py may re-export it
    if module is None or _package(module) in NOT_THE_USERS:
        return
    if _is_installed(module):
        package = sys.modules[_package(module)]
        yield package.__name__, str(getattr(package, "__version__", None))
        sources = [module]
    else:
        loaded = [part for part in list(sys.modules.values()) if isinstance(part, ModuleType)]
        sources = [part for part in loaded if _belongs_to(part, module)]
    for source in sources:
        file = _file(source)
        if file is not None:
            yield f"source of {source.__name__}", blake2b(file.read_bytes()).hexdigest()


def _belongs_to(loaded: ModuleType, module: ModuleType) -> bool:
    if _package(loaded) == _package(module):
        return True
    file, place = _file(module), _file(loaded)
    if file is None or place is None or _package(loaded) in NOT_THE_USERS:
        return False
    return place.is_relative_to(file.parent) and not _is_installed(loaded)


def _is_installed(module: ModuleType) -> bool:
    file = _file(module)
    return file is not None and not INSTALLED.isdisjoint(file.parts)


def _package(module: ModuleType) -> str:
    return module.__name__.partition(".")[0]


def _file(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file) if file else None
