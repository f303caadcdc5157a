"""Imports what a user named, and nothing else; only ever called in a process that may be thrown away."""

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from cudnn_sweep.workloads.errors import WorkloadError


def import_named(reference: str) -> object:
    """The object that `package.module:name` or `folder/file.py:name` names."""
    place, _, name = reference.rpartition(":")
    try:
        module = _import_file(Path(place)) if place.endswith(".py") else import_module(place)
    except Exception as error:
        raise WorkloadError(
            f"{place} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if not hasattr(module, name):
        raise WorkloadError(f"{place} has no {name!r}")
    found: object = getattr(module, name)
    return found


def _import_file(file: Path) -> ModuleType:
    spec = spec_from_file_location(f"sweep_user_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
