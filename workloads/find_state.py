"""The states that there are, by name: one file a state in `states/`."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from cudnn_sweep.workloads import states
from cudnn_sweep.workloads.parameters import make_from_parameters
from cudnn_sweep.workloads.workload import State


@cache
def state_types() -> dict[str, type[State]]:
    """Every state in the folder, by name."""
    for module in iter_modules(states.__path__):
        import_module(f"{states.__name__}.{module.name}")
    return {state.name: state for state in State.__subclasses__()}


def make_state(name: str, parameters: dict[str, float]) -> State:
    """Raises WorkloadError for an unknown state or parameter, or a number that it does not take."""
    return make_from_parameters("state", state_types(), name, parameters)
