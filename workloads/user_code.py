"""Imports what a user named, and nothing else; only ever called in a process that may be thrown away. Hashes it."""

import os
import sys
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from hashlib import blake2b
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from types import FunctionType, ModuleType

from cudnn_sweep.workloads.errors import UserCodeError, WorkloadError, unknown
from cudnn_sweep.workloads.hashes import content_hash

INSTALLED = {"site-packages", "dist-packages"}
NOT_THE_USERS = {"__main__", "torch", __name__.partition(".")[0], *sys.stdlib_module_names}
EXTRAS = {"torchvision": "vision", "monai": "medical"}
"""Packages that an extra of ours brings."""
OTHER_NAMES = {
    "PIL": "pillow",
    "cv2": "opencv-python",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "yaml": "pyyaml",
}
"""Packages that are installed by another name than they are imported by."""


def import_named(reference: str) -> object:
    """The object that `package.module:name` or `folder/file.py:name` names.

    Raises WorkloadError, which for a package that is not there says how to get it; UserCodeError if its import fails.
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
            os._exit(0)  # a copy that the module forked: it would measure beside us
    if not hasattr(module, name):
        public = {known for known in vars(module) if not known.startswith("_")}
        packages = {known for known in public if isinstance(vars(module)[known], ModuleType)}
        raise unknown(f"name in {place}", name, list(public - packages))
    found: object = getattr(module, name)
    return found


def _no_file(file: Path) -> str:
    folder = file.parent
    there = sorted(each.name for each in folder.glob("*.py")) if folder.is_dir() else []
    near = get_close_matches(file.name, there, n=1)
    guess = f" (did you mean {folder / near[0]}?)" if near else ""
    return f"there is no file {file} in {Path.cwd()}{guess}"


def _is_missing(place: str, error: Exception) -> bool:
    """Whether the module itself is not there, or a package that it is in."""
    return isinstance(error, ModuleNotFoundError) and f"{place}.".startswith(f"{error.name}.")


def _reason(place: str, error: Exception) -> str:
    """A module that is not there is named by `place`, or imported by what `place` names."""
    cause = f"{type(error).__name__}: {error}"
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return cause
    package, _, inner = error.name.partition(".")
    folder = Path(place).parent
    is_beside = any((folder / name).exists() for name in (package, f"{package}.py"))
    if not inner and place.endswith(".py") and is_beside:
        return f"{package} is beside it: start in {folder}, or name that folder in PYTHONPATH"
    if not inner:
        return f"{package} is not installed; {_how_to_get(package)}"
    if _is_missing(place, error):
        return f"{package} is installed and has no module {inner}"
    return cause


def _how_to_get(package: str) -> str:
    extra = EXTRAS.get(package)
    named = OTHER_NAMES.get(package, package)
    return f"pip install 'cudnn-sweep[{extra}]'" if extra else f"pip install {named}"


def module_of(place: str) -> ModuleType | None:
    """What `import_named` has imported from there in this process."""
    return sys.modules.get(_file_module(Path(place)) if place.endswith(".py") else place)


def _file_module(file: Path) -> str:
    """Numbered where another file of that name came first."""
    name, path = f"sweep_user_{file.stem}", str(file.resolve())
    for number in count(2):
        if name not in sys.modules or sys.modules[name].__file__ == path:
            break
        name = f"sweep_user_{file.stem}_{number}"
    return name


def _import_file(file: Path) -> ModuleType:
    """Once a process: what two references name in one file is of the same classes."""
    name = _file_module(file)
    spec = spec_from_file_location(name, file.resolve())
    assert spec is not None and spec.loader is not None
    if name in sys.modules:
        return sys.modules[name]
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def code_hash(references: Iterable[str]) -> str | None:
    """Hash of the code that these name, once imported; None where it is torch's or ours.

    For `folder/file.py:name` that is the file, for `package.module:name` the file that defines the name,
    each with what was imported from the same folder or package. An installed package has its version in
    place of the latter.
    """
    contents = dict(content for name in references if ":" in name for content in _contents(name))
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
        beside = [each for each in loaded if _belongs_to(each, module)]
    for each in beside:
        file = _file(each)
        if file is not None:
            yield f"source of {each.__name__}", blake2b(file.read_bytes()).hexdigest()


def _belongs_to(other: ModuleType, module: ModuleType) -> bool:
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
