"""State: what surrounds a step at equal shapes and changes what cuDNN does. One file a state in `states/`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, ClassVar

from cudnn_sweep.workloads import states
from cudnn_sweep.workloads.parameters import make_from_parameters

if TYPE_CHECKING:
    from cudnn_sweep.workloads.workload import Setting, TimedStep


@dataclass(frozen=True, kw_only=True)
class State(ABC):
    """Its dataclass fields are its parameters, all of them numbers."""

    name: ClassVar[str]
    """What a cell's `state` calls it."""
    recomputes: ClassVar[bool] = False
    """A step's forward pass keeps no activations and runs again in the backward pass; only for what has
    one and runs it through `Setting.forward`."""

    alone: ClassVar[bool] = False
    """A step must have no other process beside it on the device."""

    @abstractmethod
    def surround(self, step: TimedStep, setting: Setting) -> TimedStep:
        """The step as it is in this state; called once `step` is built."""

    def parameters(self) -> dict[str, float]:
        """Its numbers by name."""
        return {name: float(value) for name, value in asdict(self).items()}


@cache
def state_types() -> dict[str, type[State]]:
    """Every state in the folder, by name."""
    for module in iter_modules(states.__path__):
        import_module(f"{states.__name__}.{module.name}")
    return {state.name: state for state in State.__subclasses__()}


def make_state(name: str, parameters: dict[str, float]) -> State:
    """Raises WorkloadError for an unknown state or parameter, or a number that it does not take."""
    return make_from_parameters("state", state_types(), name, parameters)
