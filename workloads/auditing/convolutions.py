"""Counts calls of torch's convolutions, and the distinct plans that they need.

The functions of torch that run a convolution are replaced by ones that note each call. In the steady state
this is a look-up of the call's sizes in a dictionary of its thread; the cost is in docs/your-model.md, measured by
tests/studies/audit_cost.py. torch.compile, torch.jit and torch.fx see the functions as torch's own.
"""

import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import wraps
from time import perf_counter
from types import ModuleType
from typing import Any

from cudnn_sweep.workloads.auditing.findings import Convolution, Sizes
from cudnn_sweep.workloads.auditing.own_errors import OwnErrors
from cudnn_sweep.workloads.layout import layout_of

MOST_SHAPES = 100_000  # kept for a thread: with 1 kB each, memory stays within reason
LOOK_EVERY = 16  # calls outside of known models: a look at the stack takes a microsecond
TAIL = 0.1  # the last part of the calls, in which new shapes say that more would come
DIRECT = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
TRANSPOSED = (*DIRECT[:5], "output_padding", "groups", "dilation")
ARGUMENTS = {
    **{f"conv{dimensions}d": DIRECT for dimensions in (1, 2, 3)},
    **{f"conv_transpose{dimensions}d": TRANSPOSED for dimensions in (1, 2, 3)},
}
TRACED = ("FakeTensor", "FunctionalTensor")
"""Types of what torch.compile and torch.export run functions with in order to see what they do."""
BACKWARD = "ConvolutionBackward"
DEEPEST = 4  # nodes of autograd between what a function returns and its convolution

Plan = tuple[Any, ...]
Tensor = Any  # torch is not imported here
Call = Callable[..., Tensor]


@dataclass(eq=False, slots=True)
class Tally:
    """Calls of one thread that are alike in every respect that is looked at."""

    plan: Convolution
    benchmark: bool
    calls: int = 0
    without_gradients: bool = True
    """Whether all calls so far recorded none: the first that does leads to a backward pass."""

    def add_to(self, plan: Convolution) -> None:
        plan.calls += self.calls
        plan.calls_with_benchmark += self.calls * self.benchmark


@dataclass(eq=False, slots=True)
class ThreadCalls:
    tallies: dict[Any, Tally] = field(default_factory=dict)
    plans: set[Plan] = field(default_factory=set)
    calls: int = 0
    not_told_apart: int = 0
    inside: bool = False
    """Whether a model that is known is being called."""

    def count_untold(self) -> None:
        """A call whose sizes are not told apart."""
        self.calls += 1
        self.not_told_apart += 1


class _Alive:
    """Ends with its thread."""


class Convolutions:
    def __init__(self, own: OwnErrors) -> None:
        self.outside: Callable[[], None] = lambda: None
        """Is called at convolutions outside of the models that are known."""
        self.transformed = 0
        """Calls inside of torch.func.vmap and the like."""
        self.own = own
        self._lock = threading.Lock()
        self._met: dict[Plan, Convolution] = {}
        """As all threads meet them, in that order, with the calls of those threads that have ended."""
        self._threads: list[ThreadCalls] = []
        self._ended = ThreadCalls()
        self._ended_threads = 0
        owner = self

        class Local(threading.local):
            def __init__(self) -> None:
                self.calls = ThreadCalls()
                self.alive = _Alive()
                owner._begin(self.calls, self.alive)

        self.local = Local()

    def calls(self) -> int:
        return self._ended.calls + sum(each.calls for each in self._threads)

    def threads(self) -> int:
        return self._ended_threads + sum(each.calls > 0 for each in list(self._threads))

    def not_told_apart(self) -> int:
        return self._ended.not_told_apart + sum(each.not_told_apart for each in self._threads)

    def found(self) -> tuple[Convolution, ...]:
        """In the order in which they arrived."""
        with self._lock:
            found = {id(plan): replace(plan) for plan in self._met.values()}
            for thread in self._threads:
                for tally in thread.tallies.copy().values():
                    tally.add_to(found[id(tally.plan)])
            return tuple(found.values())

    def arrived(self) -> list[int]:
        return [plan.arrived_at for plan in list(self._met.values())]

    def watch(self, torch: ModuleType) -> None:
        functional = torch.nn.functional
        scriptable = torch.jit._builtins._get_builtin_table()  # by the functions' identity
        for name, arguments in ARGUMENTS.items():
            call = getattr(torch, name)
            watched = self._watching(torch, call, arguments)
            for module in (torch, functional):
                if getattr(module, name) is call:
                    setattr(module, name, watched)
            if id(call) in scriptable:
                scriptable[id(watched)] = scriptable[id(call)]

    def _begin(self, thread: ThreadCalls, alive: _Alive) -> None:
        with self._lock:
            self._threads.append(thread)
        weakref.finalize(alive, self._end, thread).atexit = False

    def _end(self, thread: ThreadCalls) -> None:
        """Its plans end with it."""
        with self._lock:
            for tally in thread.tallies.values():
                tally.add_to(tally.plan)
            self._ended.calls += thread.calls
            self._ended.not_told_apart += thread.not_told_apart
            self._ended_threads += thread.calls > 0
            self._threads.remove(thread)

    def _watching(self, torch: ModuleType, call: Call, arguments: tuple[str, ...]) -> Call:
        """What replaces `call`. All that it looks at is at hand: this runs at each convolution."""
        local, name = self.local, call.__name__
        compiling, tracing = torch.compiler.is_dynamo_compiling, torch._C._is_tracing
        overridden = torch._C._has_torch_function_variadic
        benchmark, deterministic = torch._C._get_cudnn_benchmark, torch._C._get_cudnn_deterministic
        autocast, grad = torch.is_autocast_enabled, torch.is_grad_enabled
        tf32 = torch._C._get_cudnn_allow_tf32
        first_call = FirstCalls(self, torch, call, arguments)

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
                overriding = [each for each in (x, weight) if type(each) is not torch.Tensor]
                return torch.overrides.handle_torch_function(
                    convolution, overriding, *args, **kwargs
                )
            thread = local.calls
            try:
                key = (
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
                tally = thread.tallies.get(key)
            except AttributeError:
                return call(*args, **kwargs)  # which says what is wrong
            except RuntimeError:
                if tf32 is not precise_tf32:  # the newer of torch's two interfaces to TF32 was used
                    tf32 = precise_tf32
                    return convolution(*args, **kwargs)
                thread.count_untold()  # a tensor without strides, such as a sparse one
                return call(*args, **kwargs)
            except TypeError:  # a list among the arguments
                key = (
                    *key[:-1],
                    tuple(tuple(each) if isinstance(each, list) else each for each in rest),
                )
                try:
                    tally = thread.tallies.get(key)
                except TypeError:
                    return call(*args, **kwargs)
            if tally is None or (tally.without_gradients and grad()):
                if not thread.inside:
                    self.outside()
                return first_call(thread, key, x, weight, args, kwargs)
            if not thread.inside and tally.calls % LOOK_EVERY == 0:
                self.outside()
            tally.calls += 1
            thread.calls += 1
            return call(*args, **kwargs)

        def precise_tf32() -> bool:
            return bool(torch._C._get_fp32_precision_getter("cuda", "conv") == "tf32")

        # As torch.conv2d it can be pickled.
        convolution.__module__, convolution.__qualname__ = torch.__name__, name
        return convolution

    def meet(self, plan: Plan, described: dict[str, Any], **at_first: Any) -> Convolution:
        """The same for all threads. `at_first`: what PyTorch's key does not have."""
        with self._lock:
            if plan not in self._met:
                number = self.calls() + 1
                self._met[plan] = Convolution(**described, **at_first, arrived_at=number)
            return self._met[plan]


@dataclass(frozen=True, slots=True)
class FirstCalls:
    """Calls that were not met before in this thread: timed where they make a plan."""

    _owner: Convolutions
    _torch: ModuleType
    _call: Call
    _arguments: tuple[str, ...]

    def __call__(
        self,
        thread: ThreadCalls,
        key: Any,
        x: Tensor,
        weight: Tensor,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Tensor:
        if type(x).__name__ in TRACED:
            return self._call(*args, **kwargs)
        if self._torch._C._functorch.peek_interpreter_stack() is not None:
            self._owner.transformed += 1  # vmap hides the sizes that the convolution really has
            return self._call(*args, **kwargs)
        if len(thread.tallies) >= MOST_SHAPES:
            thread.count_untold()
            return self._call(*args, **kwargs)
        try:
            described = self._described(key, x, weight)
        except (TypeError, ValueError):
            return self._call(*args, **kwargs)  # which says what is wrong
        except RuntimeError:  # torch knows no autocast for the meta device
            thread.count_untold()
            return self._call(*args, **kwargs)
        plan, seconds = tuple(described.values()), 0.0
        if plan in thread.plans:
            output = self._call(*args, **kwargs)
        else:
            self._settle(x)
            began = perf_counter()
            output = self._call(*args, **kwargs)
            self._settle(x)
            seconds = perf_counter() - began
            thread.plans.add(plan)
        with self._owner.own:
            benchmark = key[8]
            met = self._owner.meet(
                plan,
                described,
                benchmark_at_first=benchmark,
                enabled_at_first=self._torch._C._get_cudnn_enabled(),
                autocast_at_first=self._is_autocast(x),
            )
            met.first_forward_s += seconds
            tally = thread.tallies.setdefault(key, Tally(met, benchmark))
            tally.without_gradients = not self._torch.is_grad_enabled()
            tally.calls += 1
            thread.calls += 1
            if met.first_backward_s is None and output.requires_grad:
                self._time_backward(output, met)
        return output

    def _described(self, key: Any, x: Tensor, weight: Tensor) -> dict[str, Any]:
        """What PyTorch's cache of plans tells apart, in one form however it was written."""
        name, _, input_shape, weight_shape, *_, deterministic, tf32, _, rest = key
        given = dict(zip(self._arguments[3:], rest, strict=False))
        dimensions = len(weight_shape) - 2
        if len(input_shape) == dimensions + 1:
            input_shape = (1, *input_shape)  # one image alone
        return {
            "operation": name,
            "input": tuple(input_shape),
            "weight": tuple(weight_shape),
            "stride": _each(given.get("stride"), 1, dimensions),
            "padding": _each(given.get("padding"), 0, dimensions),
            "dilation": _each(given.get("dilation"), 1, dimensions),
            "groups": 1 if given.get("groups") is None else given["groups"],
            "output_padding": _each(given.get("output_padding"), 0, dimensions),
            "dtype": self._dtype(x),
            "memory_format": layout_of(x, weight),
            "device": str(x.device),
            "allow_tf32": bool(tf32),
            "deterministic": bool(
                deterministic or self._torch.are_deterministic_algorithms_enabled()
            ),
        }

    def _dtype(self, x: Tensor) -> str:
        dtype = self._torch.get_autocast_dtype(x.device.type) if self._is_autocast(x) else x.dtype
        return str(dtype).removeprefix("torch.")

    def _is_autocast(self, x: Tensor) -> bool:
        """Whether torch casts it on its way into the convolution."""
        torch = self._torch
        if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            return False
        return bool(torch.is_autocast_enabled(x.device.type))

    def _settle(self, *tensors: Tensor | None) -> None:
        """What the GPU still has to do belongs to no first call. A graph's capture allows no waiting."""
        cuda = self._torch.cuda
        with self._owner.own:
            x = next((each for each in tensors if each is not None), None)
            if x is None or not x.is_cuda or not cuda.is_initialized():
                return
            if not cuda.is_current_stream_capturing():
                cuda.synchronize(x.device)

    def _time_backward(self, output: Tensor, met: Convolution) -> None:
        """Autograd runs the backward pass from C++; Python code may run before and after a node."""
        node = output.grad_fn
        for _ in range(DEEPEST):
            if node is None or node.name().startswith(BACKWARD):
                break
            node = node.next_functions[0][0] if node.next_functions else None
        if node is None or not node.name().startswith(BACKWARD):
            return
        began = 0.0

        def before(gradients: tuple[Tensor, ...]) -> None:
            nonlocal began
            self._settle(*gradients)
            began = perf_counter()

        def after(_: object, gradients: tuple[Tensor, ...]) -> None:
            if met.first_backward_s is None:
                self._settle(*gradients)
                met.first_backward_s = perf_counter() - began

        node.register_prehook(before)
        node.register_hook(after)


def _given(
    arguments: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Any, tuple[Any, ...]]:
    """Input, weight and what comes after the bias, each None where it was left out."""
    given = dict(zip(arguments, args, strict=False)) | kwargs
    x, weight, _, *rest = (given.get(name) for name in arguments)
    return x, weight, tuple(rest)


def _each(given: Any, otherwise: int, dimensions: int) -> Sizes | str:
    if isinstance(given, str):
        return given
    sizes = (otherwise,) if given is None else (given,) if isinstance(given, int) else tuple(given)
    return sizes * dimensions if len(sizes) == 1 else sizes


def arrivals_at(numbers: list[int], calls: int) -> tuple[tuple[int, int], ...]:
    """How many had arrived after 1, 10, 100 ... calls, and after all of them."""
    marks, mark = [], 1
    while mark < calls:
        marks.append(mark)
        mark *= 10
    return tuple((mark, bisect_right(numbers, mark)) for mark in (*marks, calls) if mark)


def new_in_tail(numbers: list[int], calls: int) -> int:
    return len(numbers) - bisect_right(numbers, calls - calls * TAIL)
