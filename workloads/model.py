"""ModelChoice: how a model named by import path is built and trained. What is timed of it: see below."""

from dataclasses import dataclass, field

from pydantic import JsonValue


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelChoice:
    """Beside its import path, which is the workload's name."""

    arguments: dict[str, JsonValue] = field(default_factory=dict)
    """Keyword arguments of the class or function that makes it."""
    loss: str = "mean_square"
    optimiser: str = "sgd"
    optimiser_parameters: dict[str, float] = field(default_factory=dict)
    """Keyword arguments of the optimiser that are not its defaults here."""
