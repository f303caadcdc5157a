"""ShapeRegime: the rule by which input shapes arrive. One file a rule in `regimes/`."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from itertools import cycle
from pkgutil import iter_modules
from typing import ClassVar, Literal

from cudnn_sweep.workloads import regimes
from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.parameters import make_from_parameters
from cudnn_sweep.workloads.problem import Shape


@dataclass(frozen=True, kw_only=True)
class ShapeRegime(ABC):
    """A rule; its dataclass fields are its parameters, all of them numbers."""

    name: ClassVar[str]
    varies: ClassVar[Literal["nothing", "batch", "space"]]

    @abstractmethod
    def period(self, base: Shape) -> tuple[Shape, ...] | None:
        """The shapes that repeat, or None where new ones never end.

        Raises WorkloadError where the rule does not suit `base` (batch, channels, space).
        """

    def stream(self, base: Shape) -> Iterator[Shape]:
        """The shapes in order of arrival, without end."""
        period = self.period(base)
        assert period is not None, f"{self.name} must say how its shapes arrive"
        return cycle(period)

    def parameters(self) -> dict[str, float]:
        return {name: float(value) for name, value in asdict(self).items()}


@cache
def regime_types() -> dict[str, type[ShapeRegime]]:
    """Every rule in the folder, by name."""
    for module in iter_modules(regimes.__path__):
        import_module(f"{regimes.__name__}.{module.name}")
    return {rule.name: rule for rule in ShapeRegime.__subclasses__()}


def make_regime(name: str, parameters: dict[str, float]) -> ShapeRegime:
    """Raises WorkloadError for an unknown rule or parameter, or a number that it does not take."""
    return make_from_parameters("regime", regime_types(), name, parameters)


def at_least(regime: str, parameter: str, value: float, least: float) -> None:
    if value < least:
        raise WorkloadError(f"regime {regime}: {parameter} must be at least {least}, found {value}")


def resized(base: Shape, space: Shape) -> Shape:
    """`base` with its spatial sizes replaced."""
    return (*base[:2], *space)
