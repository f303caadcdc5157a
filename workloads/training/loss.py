"""Losses for training, by name."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from cudnn_sweep.workloads.errors import WorkloadError, unknown
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.user_code import import_named

if TYPE_CHECKING:
    import torch

Loss = Callable[[Any], "torch.Tensor"]

MEAN_SQUARE = "mean_square"
OWN = "own"
SEED = 0  # of random classes, which are the same for all configs


def floating_tensors(output: Any, name: str = "output") -> dict[str, "torch.Tensor"]:
    """Return the floating-point tensors of an output, with keys such as `output.features.0`."""
    import torch

    if isinstance(output, torch.Tensor):
        return {name: output} if output.is_floating_point() else {}
    parts: Mapping[Any, Any] = {}
    if isinstance(output, Mapping):
        parts = output
    elif isinstance(output, tuple | list):
        parts = dict(enumerate(output))
    elif is_dataclass(output):
        parts = {field.name: getattr(output, field.name) for field in fields(output)}
    return {
        path: tensor
        for key, part in parts.items()
        for path, tensor in floating_tensors(part, f"{name}.{key}").items()
    }


def mean_square(output: Any) -> "torch.Tensor":
    """Return the mean square of the floating-point tensors in the output."""
    return _mean_over(MEAN_SQUARE, output, lambda values: values.square().mean())


def cross_entropy(output: Any) -> "torch.Tensor":
    """Return the cross-entropy between the output (N, classes, *space) and random classes."""
    import torch

    def of_scores(scores: torch.Tensor) -> torch.Tensor:
        shape = tuple(scores.shape)
        if len(shape) < 2:
            raise WorkloadError(
                "loss cross_entropy takes an output of shape (N, classes) or (N, classes, *space), "
                f"found {shape}"
            )
        return torch.nn.functional.cross_entropy(scores, _classes(shape, scores.device))

    return _mean_over("cross_entropy", output, of_scores)


@cache
def _classes(shape: Shape, device: "torch.device") -> "torch.Tensor":
    import torch

    generator = torch.Generator(device).manual_seed(SEED)
    return torch.randint(shape[1], (shape[0], *shape[2:]), generator=generator, device=device)


def own(output: Any) -> "torch.Tensor":
    """Return the loss that the model returns. Raises WorkloadError if there is none."""
    loss = own_loss(output)
    if loss is None:
        raise WorkloadError(
            f"loss {OWN} needs a loss from the model, which returned a {type(output).__name__}; "
            "allowed: a dict or object with a scalar `loss`, a tuple that begins with a scalar, or "
            "a scalar"
        )
    return loss


def own_loss(output: Any) -> "torch.Tensor | None":
    """Return the floating-point scalar that is the loss in a model's output, or None."""
    import torch

    if isinstance(output, Mapping):
        loss = output.get("loss")
    elif isinstance(output, tuple | list) and not hasattr(output, "loss"):
        loss = output[0] if output else None
    else:
        loss = getattr(output, "loss", output)
    is_loss = isinstance(loss, torch.Tensor) and loss.dim() == 0 and loss.is_floating_point()
    return loss if is_loss else None


LOSSES: dict[str, Loss] = {loss.__name__: loss for loss in (mean_square, cross_entropy, own)}


def check_loss(name: str) -> None:
    """Raise WorkloadError if the name of a loss is unknown. A user's own loss is not imported."""
    if name not in LOSSES and ":" not in name:
        raise unknown("loss", name, [*LOSSES, "FILE.py:NAME", "MODULE:NAME"])


def make_loss(name: str) -> Loss:
    """Return a loss function by name. A user's own function is imported."""
    if name in LOSSES:
        return LOSSES[name]
    users = import_named(name)
    if not callable(users):
        raise WorkloadError(f"loss {name} is a {type(users).__name__}; allowed: a function")

    def checked(output: Any) -> "torch.Tensor":
        import torch

        loss = users(output)
        if not isinstance(loss, torch.Tensor) or loss.dim() != 0:
            shape = f" of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else ""
            raise WorkloadError(
                f"loss {name} returned a {type(loss).__name__}{shape}; allowed: a scalar tensor"
            )
        return loss

    return checked


def _mean_over(
    loss: str, output: Any, function: Callable[["torch.Tensor"], "torch.Tensor"]
) -> "torch.Tensor":
    """Return the mean of `function` over all tensors, computed in float32 or float64."""
    import torch

    tensors = floating_tensors(output).values()
    if not tensors:
        raise WorkloadError(
            f"loss {loss} needs floating-point tensors, but the model returned a "
            f"{type(output).__name__}"
        )
    wide = [tensor.to(torch.promote_types(tensor.dtype, torch.float32)) for tensor in tensors]
    return torch.stack([function(tensor) for tensor in wide]).mean()
