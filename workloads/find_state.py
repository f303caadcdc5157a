"""Finds a state by its name. Each state has a file in `states/`."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from cudnn_sweep.workloads import states
from cudnn_sweep.workloads.errors import unknown
from cudnn_sweep.workloads.parameters import make_from_parameters
from cudnn_sweep.workloads.workload import State


@cache
def state_types() -> dict[str, type[State]]:
    return {name: state_type(name) for name in _names()}


@cache
def state_type(name: str) -> type[State]:
    """Return a state's class. Only its own module is imported. Raises WorkloadError."""
    if name not in _names():
        raise unknown("state", name, _names())
    place = f"{states.__name__}.{name}"
    import_module(place)
    return next(state for state in State.__subclasses__() if state.__module__ == place)


def make_state(name: str, parameters: dict[str, float]) -> State:
    return make_from_parameters("state", {name: state_type(name)}, name, parameters)


def _names() -> list[str]:
    return [module.name for module in iter_modules(states.__path__)]
