"""Finds a bundled workload or a user's workload by its name."""

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
    values = [value for module in modules for value in vars(module).values()]
    return {value.name: value for value in values if isinstance(value, Workload)}


def find_workload(name: str) -> Workload:
    """Return the workload called `name`, such as `conv` or `folder/file.py:Net`.

    A user's file is imported, so call this in a process that ends afterwards. Raises WorkloadError.
    """
    if ":" in name:
        imported = import_repeatably(name)
        return imported if isinstance(imported, Workload) else model_workload(name, imported)
    if name.endswith(".py"):
        import_repeatably(f"{name}:__name__")
        variables = vars(module_of(name))
        models = [
            key
            for key, value in variables.items()
            if isinstance(value, Workload)
            or (isinstance(value, type) and issubclass(value, torch.nn.Module))
            and value.__module__ == variables["__name__"]
        ]
        first, listed = next(iter(models), "NAME"), ", ".join(models) or "none"
        raise WorkloadError(
            f"{name}: add the name of a class, such as {name}:{first} (found: {listed})"
        )
    if name not in bundled_workloads():
        raise unknown("workload", name, [*bundled_workloads(), "FILE.py:NAME", "MODULE:NAME"])
    return bundled_workloads()[name]


def import_repeatably(name: str) -> object:
    """Import an object with a fixed random seed, so that its weights are always the same."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return import_named(name)
