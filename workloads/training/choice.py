"""How a model is made and trained, and the optimisers that can train it.

The defaults of SGD are from PyTorch's tutorials. Other optimisers have PyTorch's defaults.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, JsonValue, PositiveInt

from cudnn_sweep.workloads.parameters import make_from_parameters
from cudnn_sweep.workloads.strict import STRICT
from cudnn_sweep.workloads.training.loss import MEAN_SQUARE, check_loss

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, kw_only=True)
class Optimiser:
    """Base class of optimisers. A subclass has the name of the torch.optim class that it makes."""

    def make(
        self, weights: Iterable["torch.Tensor"], device: "torch.device"
    ) -> "torch.optim.Optimizer":
        """Make a torch optimiser. Raises ValueError if torch does not accept a parameter."""
        import torch

        kind: type[torch.optim.Optimizer] = getattr(torch.optim, type(self).__name__)
        numbers: dict[str, Any] = asdict(self)
        if "beta1" in numbers:
            numbers["betas"] = numbers.pop("beta1"), numbers.pop("beta2")
        if "capturable" in signature(kind).parameters:  # CUDA graphs need it
            numbers["capturable"] = device.type == "cuda"
        return kind(weights, **numbers)


@dataclass(frozen=True, kw_only=True)
class SGD(Optimiser):
    """torch.optim.SGD with these arguments."""

    lr: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Adam(Optimiser):
    """torch.optim.Adam with these arguments."""

    lr: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    """Small number that avoids division by zero. Use 1e-4 in fp16, which rounds 1e-8 to zero."""
    weight_decay: float = 0.0


@dataclass(frozen=True, kw_only=True)
class AdamW(Adam):
    """torch.optim.AdamW with these arguments."""

    weight_decay: float = 0.01


@dataclass(frozen=True, kw_only=True)
class RMSprop(Optimiser):
    """torch.optim.RMSprop with these arguments."""

    lr: float = 0.01
    alpha: float = 0.99
    eps: float = 1e-8
    """Small number that avoids division by zero. In fp16 the default is rounded to zero."""
    momentum: float = 0.0
    weight_decay: float = 0.0


OPTIMISERS = {kind.__name__.lower(): kind for kind in (SGD, Adam, AdamW, RMSprop)}


def make_optimiser(name: str, parameters: dict[str, float]) -> Optimiser:
    return make_from_parameters("optimiser", OPTIMISERS, name, parameters)


class Expect(BaseModel):
    """Expected counts of a model. A launch refuses a model with other counts."""

    model_config = STRICT

    parameters: PositiveInt | None = None
    """Number of elements of all parameters."""
    convolutions: PositiveInt | None = None
    """Number of convolutions in one call of the model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelChoice:
    """How a model is made and trained. Raises WorkloadError for an unknown loss or optimiser."""

    arguments: dict[str, JsonValue] = field(default_factory=dict)
    inputs: JsonValue = None
    """Inputs of the model, written as in a suite. None means one float tensor."""
    loss: str = MEAN_SQUARE
    optimiser: str = "sgd"
    optimiser_parameters: dict[str, float] = field(default_factory=dict)
    expect: Expect | None = field(default=None, compare=False)
    """Expected counts of the model. They do not change the id of a cell."""

    def __post_init__(self) -> None:
        check_loss(self.loss)
        make_optimiser(self.optimiser, self.optimiser_parameters)
