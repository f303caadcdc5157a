"""Makes training and inference steps of models such as `torchvision.models:resnet50`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from inspect import signature
from types import FunctionType
from typing import Any, cast

import torch
from pydantic import JsonValue
from torch import nn
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_map_only

from cudnn_sweep.workloads.errors import UserCodeError, WorkloadError
from cudnn_sweep.workloads.models.inputs import Called, make_prepare
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.training.choice import ModelChoice, make_optimiser
from cudnn_sweep.workloads.training.loss import LOSSES, OWN, floating_tensors, make_loss, own_loss
from cudnn_sweep.workloads.warnings import WarningName
from cudnn_sweep.workloads.workload import Context, TimedStep, Workload

Source = type[nn.Module] | FunctionType | nn.Module
Tensors = dict[str, torch.Tensor]

ALLOWED = (
    "a torch.nn.Module, a subclass of torch.nn.Module, a function that returns a module, or a "
    "function whose parameter has the annotation torch.Tensor"
)
SEED = 0  # of the random numbers in an examined forward pass


def model_workload(name: str, source: object) -> Workload:
    """Make a workload from a model or a user's step. Raises WorkloadError for other objects."""
    if not is_source(source):
        kind = "a class" if isinstance(source, type) else f"a {type(source).__name__}"
        raise WorkloadError(
            f"{name} is {kind}; allowed: a function with the decorator @workload(...), {ALLOWED}"
        )
    parameters = signature(source).parameters if isinstance(source, FunctionType) else {}
    is_step = any("Tensor" in str(p.annotation) for p in parameters.values())
    return Workload(
        name=name,
        directions=("training",) if is_step else ("training", "inference"),
        varies=("batch", "space"),
        recomputes=not is_step,  # a step contains its own backward pass
        is_model=True,
        build=partial(_own_step, cast(FunctionType, source))
        if is_step
        else partial(_build, name, cast(Source, source)),
    )


def _own_step(function: Callable[..., Any], context: Context) -> TimedStep:
    """Return a step that calls a user's function. Its results are not compared between configs."""
    assert context.model is not None
    prepare, call = _inputs(function, context.model, context)
    return TimedStep(prepare=prepare, run=lambda inputs: context.forward(call, inputs))


def _build(name: str, source: Source, context: Context) -> TimedStep:
    """Build the step of a model. Weights are drawn on the CPU in float32."""
    assert context.model is not None
    net = placed(make_module(name, source, context.model.arguments), context)
    if context.direction == "inference":
        return _inference(net, context.model, context)
    if not any(weight.requires_grad for weight in net.parameters()):
        raise WorkloadError(
            f"model {name} has no weights to train; allowed: `direction: inference`"
        )
    return _training(net, context.model, context)


def placed(net: nn.Module, context: Context) -> nn.Module:
    """Place `net` on the device. A lazy net is placed at its first call, after a call on the CPU."""
    if not any(map(is_lazy, net.parameters())):
        return context.place(net)

    def on_cpu(values: torch.Tensor) -> torch.Tensor:
        return values.cpu().float() if values.is_floating_point() else values.cpu()

    def make_parameters(net: nn.Module, *given: Any) -> None:
        hook.remove()
        arguments, by_name = tree_map_only(torch.Tensor, on_cpu, given)
        with torch.no_grad(), torch.autocast(context.device.type, enabled=False):
            net(*arguments, **by_name)
        context.place(net)

    hook = net.register_forward_pre_hook(make_parameters, with_kwargs=True)
    return net


def _training(net: nn.Module, choice: ModelChoice, context: Context) -> TimedStep:
    """Return a training step. It warns if the model returns a loss that training does not use."""
    net.train()
    weights = {name: weight for name, weight in net.named_parameters() if weight.requires_grad}
    optimiser = make_optimiser(choice.optimiser, choice.optimiser_parameters).make(
        weights.values(), context.device
    )
    scaler = torch.amp.GradScaler(
        context.device.type,
        enabled=context.precision.autocast == "float16" and not context.reference,
    )
    loss_of = make_loss(choice.loss)
    prepare, call = _inputs(context.distribute(net) if context.distribute else net, choice, context)
    warnings: set[WarningName] = set()
    is_first = choice.loss in LOSSES and choice.loss != OWN

    def forward(inputs: Any) -> torch.Tensor:
        nonlocal is_first
        output = context.forward(call, inputs)
        if is_first and own_loss(output) is not None and not isinstance(output, torch.Tensor):
            warnings.add("own_loss_unused")
        is_first = False
        with context.region():
            return loss_of(output)

    def run(inputs: Any) -> torch.Tensor:
        optimiser.zero_grad()
        loss = forward(inputs)
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
        return loss.detach()

    def examine(inputs: Any) -> Tensors:
        """Return loss and gradients. Halve the loss scale until the gradients are finite."""
        scale = scaler.get_scale()
        while True:
            with _as_if_first(net, context.device):
                loss = forward(inputs)
                scaled = torch.autograd.grad(loss * scale, [*weights.values()], allow_unused=True)
            gradients = {
                f"{name}.grad": gradient / scale
                for name, gradient in zip(weights, scaled, strict=True)
                if gradient is not None
            }
            if scale <= 1 or all(bool(values.isfinite().all()) for values in gradients.values()):
                return {"loss": loss.detach(), **gradients}
            scale /= 2

    return TimedStep(prepare=prepare, run=run, examine=examine, warnings=warnings)


def _inference(net: nn.Module, choice: ModelChoice, context: Context) -> TimedStep:
    net.eval()
    prepare, call = _inputs(net, choice, context)

    @torch.no_grad()
    def run(inputs: Any) -> None:
        context.forward(call, inputs)

    @torch.no_grad()
    def examine(inputs: Any) -> Tensors:
        with _as_if_first(net, context.device):
            return floating_tensors(context.forward(call, inputs))

    has_parameters = next(net.parameters(), None) is not None
    return TimedStep(prepare=prepare, run=run, examine=examine, has_parameters=has_parameters)


def _inputs(
    net: Callable[..., Any], choice: ModelChoice, context: Context
) -> tuple[Callable[[Shape], Any], Callable[[Any], Any]]:
    """Return a function that makes inputs of a shape, and a function that calls `net` on them."""
    if choice.inputs is None:
        return context.random, net

    def call(inputs: Called) -> Any:
        arguments, by_name = inputs
        return net(*arguments, **by_name)

    return make_prepare(choice.inputs, context), call


@contextmanager
def _as_if_first(net: nn.Module, device: torch.device) -> Iterator[None]:
    """Fix the seed and turn dropout off in the `with` block. Restore the buffers after it."""
    before = {name: buffer.clone() for name, buffer in net.named_buffers()}
    dropouts = [part for part in net.modules() if isinstance(part, _DropoutNd) and part.training]
    for dropout in dropouts:
        dropout.eval()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(SEED)
        yield
    for dropout in dropouts:
        dropout.train()
    with torch.no_grad():
        for name, value in before.items():
            net.get_buffer(name).copy_(value)


def is_source(source: object) -> bool:
    if isinstance(source, type):
        return issubclass(source, nn.Module)
    return isinstance(source, FunctionType | nn.Module)


def make_module(name: str, source: Source, arguments: dict[str, JsonValue]) -> nn.Module:
    """Copy the module `source`, or call `source` to make one. Raises WorkloadError."""
    if isinstance(source, nn.Module):
        if arguments:
            names = ", ".join(arguments)
            raise WorkloadError(
                f"model {name} is a module, so it takes no arguments; found {names}"
            )
        return deepcopy(source)
    try:
        signature(source).bind(**arguments)
    except TypeError as error:
        raise WorkloadError(
            f"model {name}: {error}; allowed arguments: {signature(source)}"
        ) from error
    try:
        made = source(**arguments)
    except Exception as error:
        words = " ".join(str(error).split())
        raise UserCodeError(
            f"model {name} cannot be made: {type(error).__name__}: {words}"
        ) from error
    if not isinstance(made, nn.Module):
        raise WorkloadError(
            f"model {name} returned a {type(made).__name__}; allowed: a torch.nn.Module"
        )
    return made
