"""Finds a shape regime by its name. Regimes are in `regimes/` or in a user's file."""

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
    return {rule.name: rule for rule in ours}  # a user's rule has an import path instead of a name


def make_regime(name: str, parameters: dict[str, float]) -> ShapeRegime:
    """Return the rule called `name`. Raises WorkloadError for a wrong name or parameter.

    A user's file is imported, so call this in a process that ends afterwards.
    """
    types = {name: own_regime_type(name, import_named(name))} if ":" in name else regime_types()
    if name not in types:
        raise unknown("regime", name, [*types, "listed", "FILE.py:NAME"])
    return make_from_parameters("regime", types, name, parameters)


def own_regime_type(name: str, rule: object) -> type[ShapeRegime]:
    if not (isinstance(rule, type) and issubclass(rule, ShapeRegime)):
        raise WorkloadError(
            f"regime {name} is a {type(rule).__name__}; allowed: a subclass of ShapeRegime or "
            "SpatialRegime (in cudnn_sweep.workloads.regime)"
        )
    if isabstract(rule):
        raise WorkloadError(f"regime {name} has no method `period`")
    if (varies := getattr(rule, "varies", None)) not in VARIES:
        allowed = ", ".join(map(repr, VARIES))
        raise WorkloadError(f"regime {name}: its `varies` is {varies!r}; allowed: {allowed}")
    return rule
