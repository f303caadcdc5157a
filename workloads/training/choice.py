"""ModelChoice: how a model named by import path is built and trained, with the optimisers by name.

Their defaults are PyTorch's, and for SGD those of its tutorials.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, JsonValue, PositiveInt

from cudnn_sweep.workloads.parameters import make_from_parameters
from cudnn_sweep.workloads.strict import STRICT
from cudnn_sweep.workloads.training.loss import MEAN_SQUARE, check_loss

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, kw_only=True)
class Optimiser:
    """The optimiser of torch.optim with this class's name; the fields are its parameters, all numbers."""

    def make(
        self, weights: Iterable["torch.Tensor"], device: "torch.device"
    ) -> "torch.optim.Optimizer":
        """Return the optimiser. Raises ValueError for a number that torch does not take."""
        import torch

        kind: type[torch.optim.Optimizer] = getattr(torch.optim, type(self).__name__)
        return kind(weights, **self._keywords(device))

    def _keywords(self, device: "torch.device") -> dict[str, Any]:
        return asdict(self)


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
    """In fp16 the default is rounded to zero and weights become NaN: choose 1e-4 there."""
    weight_decay: float = 0.0

    def _keywords(self, device: "torch.device") -> dict[str, Any]:
        """Return torch's arguments; `capturable` counts steps on the GPU, for a CUDA graph."""
        numbers = asdict(self)
        betas = numbers.pop("beta1"), numbers.pop("beta2")
        return {**numbers, "betas": betas, "capturable": device.type == "cuda"}


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
    """In fp16 the default is rounded to zero, as for Adam."""
    momentum: float = 0.0
    weight_decay: float = 0.0

    def _keywords(self, device: "torch.device") -> dict[str, Any]:
        return {**asdict(self), "capturable": device.type == "cuda"}


OPTIMISERS = {kind.__name__.lower(): kind for kind in (SGD, Adam, AdamW, RMSprop)}


def make_optimiser(name: str, parameters: dict[str, float]) -> Optimiser:
    """Return the optimiser. Raises WorkloadError for an unknown optimiser or parameter."""
    return make_from_parameters("optimiser", OPTIMISERS, name, parameters)


class Expect(BaseModel):
    """Expected counts. A launch refuses a model with other counts before it measures."""

    model_config = STRICT

    parameters: PositiveInt | None = None
    """Elements of its parameters."""
    convolutions: PositiveInt | None = None
    """Convolutions that one call runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelChoice:
    """A model's choices beside its import path. Raises WorkloadError for an unknown loss or optimiser."""

    arguments: dict[str, JsonValue] = field(default_factory=dict)
    """Keyword arguments of the class or function that makes it."""
    inputs: JsonValue = None
    """Its inputs in the form of a suite; None: one float tensor."""
    loss: str = MEAN_SQUARE
    optimiser: str = "sgd"
    optimiser_parameters: dict[str, float] = field(default_factory=dict)
    """Arguments of the optimiser that replace its defaults above."""
    expect: Expect | None = field(default=None, compare=False)
    """Expected counts of its first call; no part of a cell."""

    def __post_init__(self) -> None:
        check_loss(self.loss)
        make_optimiser(self.optimiser, self.optimiser_parameters)
