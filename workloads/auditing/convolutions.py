"""Counts the calls of torch's convolutions, and the distinct convolutions among them.

The script tests/studies/audit_cost.py measures the cost of counting.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from threading import RLock, get_ident
from types import ModuleType
from typing import Any

from cudnn_sweep.workloads.auditing.findings import Convolution, OwnErrors, Sizes
from cudnn_sweep.workloads.layout import layout_of

MOST_SHAPES = 100_000  # largest number of distinct calls that are kept
TAIL = 0.1  # share of calls that form the end of a script
DIRECT = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
TRANSPOSED = (*DIRECT[:5], "output_padding", "groups", "dilation")
ARGUMENTS = {
    **{f"conv{dimensions}d": DIRECT for dimensions in (1, 2, 3)},
    **{f"conv_transpose{dimensions}d": TRANSPOSED for dimensions in (1, 2, 3)},
}
TRACED = ("FakeTensor", "FunctionalTensor")
"""Types of the tensors with which torch.compile and torch.export trace functions."""

Plan = tuple[Any, ...]
Tensor = Any  # torch is not imported here
Call = Callable[..., Tensor]


@dataclass(eq=False, slots=True)
class Tally:
    """Number of calls with the same thread, function, sizes, types and flags."""

    plan: Convolution
    benchmark: bool
    calls: int = 1


class Convolutions:
    def __init__(self, own: OwnErrors) -> None:
        self.own = own
        self.called: defaultdict[int, int] = defaultdict(int)
        """Number of calls in each thread."""
        self.not_told_apart = 0
        self._lock = RLock()  # a signal handler may take it again
        self._tallies: dict[Any, Tally] = {}
        self._plans: dict[Plan, Convolution] = {}

    def calls(self) -> int:
        return sum(list(self.called.values()))

    def distinct(self) -> tuple[Convolution, ...]:
        """Return the distinct convolutions in the order of their first calls."""
        with self._lock:
            plans = {id(plan): replace(plan) for plan in self._plans.values()}
            for tally in list(self._tallies.values()):
                plan = plans[id(tally.plan)]
                plan.calls += tally.calls
                plan.calls_with_benchmark += tally.calls * tally.benchmark
            return tuple(plans.values())

    def watch(self, torch: ModuleType) -> None:
        functional = torch.nn.functional
        scriptable = torch.jit._builtins._get_builtin_table()  # keys are ids of functions
        for name, arguments in ARGUMENTS.items():
            call = getattr(torch, name)
            watched = self._watching(torch, call, arguments)
            for module in (torch, functional):
                if getattr(module, name) is call:
                    setattr(module, name, watched)
            if id(call) in scriptable:
                scriptable[id(watched)] = scriptable[id(call)]

    def _watching(self, torch: ModuleType, call: Call, arguments: tuple[str, ...]) -> Call:
        """Return a fast function that counts a call and then runs `call`."""
        tallies, called, name = self._tallies, self.called, call.__name__
        compiling, tracing = torch.compiler.is_dynamo_compiling, torch._C._is_tracing
        overridden = torch._C._has_torch_function_variadic
        benchmark, deterministic = torch._C._get_cudnn_benchmark, torch._C._get_cudnn_deterministic
        autocast, tf32 = torch.is_autocast_enabled, torch._C._get_cudnn_allow_tf32

        @wraps(call)
        def convolution(*args: Any, **kwargs: Any) -> Tensor:
            nonlocal tf32
            if compiling() or tracing():
                return call(*args, **kwargs)
            if kwargs or len(args) < 2:
                x, weight, rest = _given(arguments, args, kwargs)
            else:
                x, weight, rest = args[0], args[1], args[3:]
            if overridden(x, weight):
                overriding = [tensor for tensor in (x, weight) if type(tensor) is not torch.Tensor]
                return torch.overrides.handle_torch_function(
                    convolution, overriding, *args, **kwargs
                )
            thread = get_ident()
            try:
                key = (
                    thread,
                    name,
                    type(x),
                    x.shape,
                    weight.shape,
                    x.is_contiguous() or x.stride(),
                    weight.is_contiguous() or weight.stride(),
                    x.dtype,
                    x.get_device(),
                    benchmark(),
                    deterministic(),
                    tf32(),
                    autocast(),
                    rest,
                )
                tally = tallies.get(key)
            except AttributeError:
                return call(*args, **kwargs)  # torch raises its own error
            except RuntimeError:
                if tf32 is not precise_tf32:  # the script uses torch's newer setting of TF32
                    tf32 = precise_tf32
                    return convolution(*args, **kwargs)
                self._count_untold()  # a tensor without strides, such as a sparse one
                return call(*args, **kwargs)
            except TypeError:  # an argument is a list, which cannot be hashed
                key = (
                    *key[:-1],
                    tuple(tuple(value) if isinstance(value, list) else value for value in rest),
                )
                try:
                    tally = tallies.get(key)
                except TypeError:
                    return call(*args, **kwargs)
            if tally is not None:
                tally.calls += 1
                called[thread] += 1
                return call(*args, **kwargs)
            output = call(*args, **kwargs)
            with self.own:
                self._meet(torch, key, arguments, x, weight)
            return output

        def precise_tf32() -> bool:
            return bool(torch._C._get_fp32_precision_getter("cuda", "conv") == "tf32")

        # Pickle finds this function under torch's name, such as torch.conv2d.
        convolution.__module__, convolution.__qualname__ = torch.__name__, name
        return convolution

    def _meet(
        self, torch: Any, key: Any, arguments: tuple[str, ...], x: Tensor, weight: Tensor
    ) -> None:
        """Record the first call with `key`, except in a trace or in a transform of torch.func."""
        if type(x).__name__ in TRACED or torch._C._functorch.peek_interpreter_stack() is not None:
            return
        if len(self._tallies) >= MOST_SHAPES:
            self._count_untold()
            return
        try:
            described, is_autocast = _described(torch, key, arguments, x, weight)
        except RuntimeError:  # torch has no autocast for the meta device
            self._count_untold()
            return
        plan, benchmark = tuple(described.values()), key[9]
        with self._lock:
            if plan not in self._plans:
                self._plans[plan] = Convolution(
                    **described,
                    arrived_at=self.calls() + 1,
                    benchmark_at_first=benchmark,
                    autocast_at_first=is_autocast,
                )
        self._tallies[key] = Tally(self._plans[plan], benchmark)
        self.called[get_ident()] += 1

    def _count_untold(self) -> None:
        with self._lock:
            self.called[get_ident()] += 1
            self.not_told_apart += 1


def _described(
    torch: Any, key: Any, arguments: tuple[str, ...], x: Tensor, weight: Tensor
) -> tuple[dict[str, Any], bool]:
    """Return the fields of a `Convolution`, and whether autocast applies to `x`."""
    _, name, _, input_shape, weight_shape, *_, deterministic, tf32, _, rest = key
    given = dict(zip(arguments[3:], rest, strict=False))
    dimensions = len(weight_shape) - 2
    if len(input_shape) == dimensions + 1:
        input_shape = (1, *input_shape)  # the input has no batch
    is_autocast = x.dtype in (torch.float32, torch.float16, torch.bfloat16) and bool(
        torch.is_autocast_enabled(x.device.type)
    )
    dtype = torch.get_autocast_dtype(x.device.type) if is_autocast else x.dtype
    described = {
        "operation": name,
        "input": tuple(input_shape),
        "weight": tuple(weight_shape),
        "stride": _sizes(given.get("stride"), 1, dimensions),
        "padding": _sizes(given.get("padding"), 0, dimensions),
        "dilation": _sizes(given.get("dilation"), 1, dimensions),
        "groups": 1 if given.get("groups") is None else given["groups"],
        "output_padding": _sizes(given.get("output_padding"), 0, dimensions),
        "dtype": str(dtype).removeprefix("torch."),
        "memory_format": layout_of(x, weight),
        "device": str(x.device),
        "allow_tf32": bool(tf32),
        "deterministic": bool(deterministic or torch.are_deterministic_algorithms_enabled()),
    }
    return described, is_autocast


def _given(
    arguments: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Any, tuple[Any, ...]]:
    """Return the input, the weight and the arguments after the bias. Missing ones are None."""
    given = dict(zip(arguments, args, strict=False)) | kwargs
    x, weight, _, *rest = (given.get(name) for name in arguments)
    return x, weight, tuple(rest)


def _sizes(given: Any, otherwise: int, dimensions: int) -> Sizes | str:
    if isinstance(given, str):
        return given
    sizes = (otherwise,) if given is None else (given,) if isinstance(given, int) else tuple(given)
    return sizes * dimensions if len(sizes) == 1 else sizes


def arrivals_at(numbers: list[int], calls: int) -> tuple[tuple[int, int], ...]:
    """Return pairs of n and the count of `numbers` up to n, for n = 1, 10, 100, ... and `calls`."""
    powers = (10**exponent for exponent in range(len(str(calls))))
    marks = sorted({*powers, calls} if calls else ())
    return tuple((mark, bisect_right(numbers, mark)) for mark in marks)


def new_in_tail(numbers: list[int], calls: int) -> int:
    return len(numbers) - bisect_right(numbers, calls - calls * TAIL)
