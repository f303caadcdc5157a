"""A workload by its name: a bundled one, or a user's."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

import torch

from cudnn_sweep.workloads import catalog
from cudnn_sweep.workloads.errors import WorkloadError, unknown
from cudnn_sweep.workloads.models.steps import model_workload
from cudnn_sweep.workloads.user_code import import_named, module_of
from cudnn_sweep.workloads.workload import Workload


@cache
def bundled_workloads() -> dict[str, Workload]:
    modules = [
        import_module(f"{catalog.__name__}.{module.name}")
        for module in iter_modules(catalog.__path__)
    ]
    found = [thing for module in modules for thing in vars(module).values()]
    return {thing.name: thing for thing in found if isinstance(thing, Workload)}


def find_workload(name: str) -> Workload:
    """A bundled workload, or a user's workload or model, `package.module:name` or `folder/file.py:name`.

    A user's code is imported: only in a process that may be thrown away.
    """
    if ":" not in name:
        if name.endswith(".py"):
            import_repeatably(f"{name}:__name__")
            there = vars(module_of(name))
            models = [
                key
                for key, each in there.items()
                if isinstance(each, Workload)
                or (isinstance(each, type) and issubclass(each, torch.nn.Module))
                and each.__module__ == there["__name__"]
            ]
            first, listed = next(iter(models), "NAME"), ", ".join(models) or "none"
            raise WorkloadError(f"{name}: name the class: {name}:{first} (found: {listed})")
        if name not in bundled_workloads():
            raise unknown("workload", name, [*bundled_workloads(), "FILE.py:NAME", "MODULE:NAME"])
        return bundled_workloads()[name]
    found = import_repeatably(name)
    if isinstance(found, Workload):
        return found
    return model_workload(name, found)


def import_repeatably(name: str) -> object:
    """Weights that a module draws when it is imported are the same in every process."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return import_named(name)
