"""Hints for users whose model fails. A hint depends on where the error was raised."""

import ast
import inspect
import linecache
import traceback
from difflib import get_close_matches
from types import FunctionType
from typing import Any

import torch
from torch import nn

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.problem import Shape, named_sizes, sizes_text
from cudnn_sweep.workloads.training import loss

OFTEN = 32  # networks that halve their input up to five times need multiples of this
JOINS = ("cat", "concat", "concatenate", "stack")
JOINED = "tensors that are combined differ in size"
INFERENCE = "--direction inference"
OWN_STEP = "a function `step(batch: torch.Tensor)` that calls the model's `training_step`"


def remedy_of(error: BaseException, shape: Shape) -> str:
    """Return a hint about an error, or an empty text. `shape` is the shape of the input."""
    root = _root_cause(error)
    frames = [frame for frame, _ in traceback.walk_tb(root.__traceback__)]
    last, by_name = frames[-1], {frame.f_code.co_name: frame for frame in reversed(frames)}
    module, name, local = last.f_globals["__name__"], last.f_code.co_name, last.f_locals
    if "make_module" in by_name:
        made = by_name["make_module"].f_locals
        is_unbound = module == inspect.__name__ and isinstance(root, TypeError)
        return _arguments(made["source"], made["arguments"]) if is_unbound else ""
    if isinstance(root, WorkloadError):
        of_loss = f"--loss FILE.py:NAME, or {INFERENCE}"
        return of_loss if module == loss.__name__ else INFERENCE if name == "_build" else ""
    if name == "_forward_unimplemented":
        return OWN_STEP if hasattr(local["self"], "training_step") else ""
    if name == "_call_impl" and isinstance(root, TypeError):
        needed = _required_parameters(local["self"].forward)
        return f"--inputs '{_inputs_option(needed, shape)}'" if needed else ""
    if name == "embedding" and local["input"].is_floating_point():
        owners = (frame.f_locals.get("self") for frame in frames)
        net = next(owner for owner in owners if isinstance(owner, nn.Module))
        ids = f"shape: [batch, length], dtype: int64, below: {local['weight'].shape[0]}"
        return f"--inputs '{{{_required_parameters(net.forward)[0]}: {{{ids}}}}}'"
    values = by_name["backward"].f_locals.get("self") if "backward" in by_name else None
    if isinstance(values, torch.Tensor):
        detached = f"{INFERENCE}, or a --loss that depends on the weights"
        return "" if values.requires_grad else detached
    match _raised_by(root):
        case ast.Subscript(slice=ast.Constant(value=str(key))) if isinstance(root, IndexError):
            return (
                f"--inputs '[{_inputs_option([key], shape)}]', with every key that the model takes"
            )
    misfit = does_not_fit(root, shape)
    is_odd = misfit == JOINED and any(size % OFTEN for size in shape[2:])
    wanted = f"multiples of {OFTEN}" if is_odd else "other sizes"
    return misfit and f"{wanted} with --input: {misfit}"


def does_not_fit(error: BaseException, shape: Shape) -> str:
    """Describe the tensors whose sizes caused an error. Return an empty text for other errors."""
    root = _root_cause(error)
    for frame, _ in reversed(list(traceback.walk_tb(root.__traceback__))):
        layer, given = (frame.f_locals.get(name) for name in ("self", "input"))
        if isinstance(layer, nn.Module) and isinstance(given, torch.Tensor):
            channels, features = (
                getattr(layer, name, None) for name in ("in_channels", "in_features")
            )
            is_misfit = (
                frame.f_code.co_name == "_check_input_dim"
                or (features is not None and given.shape[-1] != features)
                or (channels is not None and given.shape[1] == shape[1] != channels)
            )
            misfit = f"{type(layer).__name__} was called with {sizes_text(tuple(given.shape))}"
            return misfit if is_misfit else ""
    raised = _raised_by(root)
    called = getattr(getattr(raised, "func", None), "attr", None)
    is_join = isinstance(raised, ast.BinOp) or called in JOINS
    return JOINED if is_join and isinstance(root, RuntimeError) else ""


def _raised_by(root: BaseException) -> ast.expr | None:
    """Return the expression that raised the error, or None if it spans several lines."""
    at = traceback.extract_tb(root.__traceback__)[-1]
    line = linecache.getline(at.filename, at.lineno or 0).encode()
    try:
        return ast.parse(line[at.colno : at.end_colno], mode="eval").body
    except (SyntaxError, ValueError):
        return None


def _arguments(source: Any, arguments: dict[str, Any]) -> str:
    """Return the `--argument` options that are missing or misspelled in a call of `source`."""
    parameters = inspect.signature(source).parameters
    for unknown in arguments.keys() - parameters.keys():
        like = get_close_matches(unknown, parameters)
        return f"--argument {like[0]}=... (found {unknown})" if like else ""
    missing = [name for name in _required_parameters(source) if name not in arguments]
    text = " ".join(f"--argument {name}=..." for name in missing)
    if isinstance(source, FunctionType) and len(missing) == 1:
        text += f"; to time it as a step, annotate `{missing[0]}: torch.Tensor`"
    return text


def _required_parameters(function: Any) -> list[str]:
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind not in several]


def _inputs_option(names: list[str], shape: Shape) -> str:
    sizes = ", ".join(named_sizes(shape))
    return "{" + ", ".join(f"{name}: {{shape: [{sizes}]}}" for name in names) + "}"


def _root_cause(error: BaseException) -> BaseException:
    return error if error.__cause__ is None else _root_cause(error.__cause__)
