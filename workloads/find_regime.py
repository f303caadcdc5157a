"""Finds a shape regime by name: one file per rule in `regimes/`, or a user's own class."""

from functools import cache
from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules

from cudnn_sweep.workloads import regimes
from cudnn_sweep.workloads.errors import WorkloadError, unknown
from cudnn_sweep.workloads.parameters import make_from_parameters
from cudnn_sweep.workloads.regime import BUNDLED, VARIES, ShapeRegime, SpatialRegime
from cudnn_sweep.workloads.user_code import import_named


@cache
def regime_types() -> dict[str, type[ShapeRegime]]:
    for module in iter_modules(regimes.__path__):
        import_module(f"{regimes.__name__}.{module.name}")
    rules = [*ShapeRegime.__subclasses__(), *SpatialRegime.__subclasses__()]
    ours = (rule for rule in rules if rule.__module__.startswith(f"{BUNDLED}."))
    return {rule.name: rule for rule in ours}  # a user's own rule goes by its import path


def make_regime(name: str, parameters: dict[str, float]) -> ShapeRegime:
    """Return the rule called `name`. `FILE.py:NAME` is imported, so call this in a throw-away process.

    Raises WorkloadError for an unknown rule or parameter, and for a number that the rule does not take.
    """
    types = {name: own_regime_type(name, import_named(name))} if ":" in name else regime_types()
    if name not in types:
        raise unknown("regime", name, [*types, "listed", "FILE.py:NAME"])
    return make_from_parameters("regime", types, name, parameters)


def own_regime_type(name: str, rule: object) -> type[ShapeRegime]:
    if not (isinstance(rule, type) and issubclass(rule, ShapeRegime)):
        raise WorkloadError(
            f"regime {name} is a {type(rule).__name__}; allowed: a class derived from ShapeRegime or "
            "SpatialRegime, of cudnn_sweep.workloads.regime"
        )
    if isabstract(rule):
        raise WorkloadError(f"regime {name} has no method `period`")
    if getattr(rule, "varies", None) not in VARIES:
        allowed = ", ".join(map(repr, VARIES))
        raise WorkloadError(
            f"regime {name}: its `varies` is {getattr(rule, 'varies', None)!r}; allowed: {allowed}"
        )
    return rule
