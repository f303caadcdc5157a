"""ModelChoice: how a model named by import path is built and trained; steps.py does it."""

from dataclasses import dataclass, field

from pydantic import JsonValue

from cudnn_sweep.workloads.training.loss import MEAN_SQUARE, check_loss
from cudnn_sweep.workloads.training.optimiser import make_optimiser


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelChoice:
    """Beside its import path, which is the workload's name.

    Raises WorkloadError for a loss or an optimiser that does not exist.
    """

    arguments: dict[str, JsonValue] = field(default_factory=dict)
    """Keyword arguments of the class or function that makes it."""
    inputs: JsonValue = None
    """What it is called with, as a suite says it; None: one float tensor."""
    loss: str = MEAN_SQUARE
    optimiser: str = "sgd"
    optimiser_parameters: dict[str, float] = field(default_factory=dict)
    """Keyword arguments of the optimiser that are not its defaults here."""

    def __post_init__(self) -> None:
        check_loss(self.loss)
        make_optimiser(self.optimiser, self.optimiser_parameters)
