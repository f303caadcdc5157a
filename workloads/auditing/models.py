"""Records how a script makes and calls models. A model is a module that no other module calls."""

import copyreg
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial, wraps
from itertools import zip_longest
from threading import get_ident
from types import FrameType, ModuleType
from typing import Any, Literal
from weakref import ref

from cudnn_sweep.workloads.auditing.convolutions import Convolutions
from cudnn_sweep.workloads.auditing.findings import (
    Argument,
    InputShape,
    Making,
    Model,
    OwnErrors,
    Sizes,
)
from cudnn_sweep.workloads.auditing.loop import LoopTimes
from cudnn_sweep.workloads.auditing.writes import NOT_OWN, place
from cudnn_sweep.workloads.problem import MOST_SIZES, named_sizes
from cudnn_sweep.workloads.training.loss import own_loss

WRAPPERS = ("module", "_orig_mod")
"""Attributes in which data-parallel modules and compiled modules keep the wrapped model."""

COPYING = copyreg.__newobj__.__code__  # type: ignore[attr-defined]
Module = Any  # torch is not imported here
Given = tuple[tuple[str | int, str | None, str, Sizes | None], ...]
"""Name, key, kind and shape of each argument of a call. `Argument` explains them."""


class ModelCalls:
    """Calls of modules that have the same class and size and were made by the same code."""

    def __init__(
        self, module: Module, unseen: Literal["compiled"] | None, made: Making | None = None
    ) -> None:
        inner = _unwrapped(module)
        self.type: type = type(inner)
        self.model = Model(
            name=self.type.__qualname__,
            module=self.type.__module__,
            file=_file_of(self.type),  # not known any more when the script ends
            wrapped_in=None if inner is module else type(module).__name__,
            parameters=tuple(p.name for p in _named(getattr(self.type, "forward", None))[1:]),
            made=made,
            elements=sum(int(weight.numel()) for weight in inner.parameters()),
            unseen=unseen,
        )
        self.kind = (self.type, self.model.name, repr(made), self.model.elements)
        self._shapes: dict[Sizes, list[int]] = {}
        self._arguments: dict[tuple[bool, str | int, str | None], Argument] = {}
        self._noted: set[tuple[bool, Given]] = set()

    def note(self, given: Given, convolutions: int, training: bool, output: object) -> None:
        model = self.model
        model.calls += 1
        model.convolutions += convolutions
        if (training, convolutions) not in model.in_a_call:
            model.in_a_call = *model.in_a_call, (training, convolutions)
        shape = _first_shape(given)
        if (training, given) not in self._noted:
            self._noted.add((training, given))
            self._note_arguments(given, shape, training)
        if training:
            model.own_loss = own_loss(output) is not None
        if shape is None:
            model.without_shape += 1
            return
        self._shapes.setdefault(shape, [0, 0])[training] += 1

    def _note_arguments(self, given: Given, first: Sizes | None, training: bool) -> None:
        by_name = named_sizes(first) if first and len(first) <= MOST_SIZES else {}
        for name, key, kind, sizes in given:
            meanings: list[tuple[int | str, ...]] = [
                (size, *(text for text in by_name if by_name[text] == size)) for size in sizes or ()
            ]
            shape = None if sizes is None else tuple(meanings)
            new = Argument(training=training, name=name, key=key, kind=kind, shape=shape)
            old = self._arguments.get((training, name, key), new)
            self._arguments[training, name, key] = _both(old, new)

    def summary(self) -> Model:
        return replace(
            self.model,
            arguments=tuple(self._arguments.values()),
            shapes=tuple(
                InputShape(shape=shape, training=training, inference=inference)
                for shape, (inference, training) in self._shapes.items()
            ),
        )


@dataclass(slots=True)
class Outermost:
    """A module that the script calls directly."""

    module: "ref[Module]"
    unseen: Literal["compiled"] | None
    calls: ModelCalls | None = None
    """Calls of this and of equal modules, or None if it is not known to be a model."""


class Models:
    def __init__(
        self,
        own: OwnErrors,
        convolutions: Convolutions,
        loop: LoopTimes,
        ending: Callable[[int], None],
    ) -> None:
        """`ending` is a callback. It gets the number of calls of the most-called model."""
        self._own = own
        self._convolutions = convolutions
        self._loop = loop
        self._ending = ending
        self._made: dict[int, tuple[ref[Module], Making]] = {}
        self._by_kind: dict[tuple[object, ...], ModelCalls] = {}
        self._outermost: dict[int, Outermost] = {}
        self._torch: Any = None

    def summaries(self) -> tuple[Model, ...]:
        """Return the models. Those with the most convolution calls come first."""
        called = (calls.summary() for calls in list(self._by_kind.values()))
        return tuple(sorted(called, key=lambda model: -model.convolutions))

    def watch(self, torch: ModuleType) -> None:
        self._torch = torch
        self._watch_making(torch)
        compiling = torch.compiler.is_dynamo_compiling
        inside: set[int] = set()  # ids of threads in which a module is running

        @wraps(torch.nn.Module.__call__)
        def __call__(module: Module, *args: Any, **kwargs: Any) -> Any:
            call = module._compiled_call_impl or module._call_impl
            if compiling() or (thread := get_ident()) in inside:
                return call(*args, **kwargs)
            inside.add(thread)
            try:
                return self._call(call, module, args, kwargs)
            finally:
                inside.discard(thread)

        torch.nn.Module.__call__ = __call__

    def _watch_making(self, torch: Any) -> None:
        class_, compiling = torch.nn.Module, torch.compiler.is_dynamo_compiling
        not_own = (*NOT_OWN, os.path.dirname(torch.__file__) + os.sep)

        @wraps(class_.__init__)
        def __new__(cls: Any, *args: Any, **kwargs: Any) -> Module:
            new = super(class_, cls).__new__
            if compiling():
                return new(cls)
            module = new(cls) if new is object.__new__ else new(cls, *args, **kwargs)
            frame = sys._getframe(1)
            if frame.f_code is COPYING:
                return module
            with self._own:
                while frame.f_code.co_filename.startswith(not_own) and frame.f_back is not None:
                    frame = frame.f_back
                self._made[id(module)] = ref(module), _making(frame, cls, args, kwargs)
            return module

        class_.__new__ = __new__

    def _call(
        self, call: Callable[..., Any], module: Module, args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        nn, unseen_by_modes = self._torch.nn, self._torch._C.DisableTorchFunction
        seen: Outermost | None = None
        given: Given = ()
        is_timed = False
        with self._own, unseen_by_modes():
            seen, given = self._seen(module), _given(self._torch, args, kwargs)
            if seen.calls is not None:
                self._ending(max(kind.model.calls for kind in list(self._by_kind.values())))
            is_timed = self._loop.begin_call(module)
        called = self._convolutions.calls
        if not isinstance(module, nn.DataParallel):
            called = partial(self._convolutions.called.__getitem__, get_ident())
        before = called()
        output = call(*args, **kwargs)
        training = self._torch.is_grad_enabled()
        if is_timed:
            with self._own:  # the call is recorded even if this fails
                self._loop.end_call(training=training)
        with self._own, unseen_by_modes():
            ran = called() - before
            # A single convolution layer and a copy made by DataParallel are not models.
            is_part = isinstance(module, nn.modules.conv._ConvNd) or hasattr(module, "_is_replica")
            if seen is not None and (ran or seen.unseen) and not is_part:
                self._calls_of(module, seen).note(given, ran, training, output)
        return output

    def _seen(self, module: Module) -> Outermost:
        seen = self._outermost.get(id(module))
        if seen is None or seen.module() is not module:
            seen = Outermost(ref(module), _unseen_in(self._torch, module))
            self._outermost[id(module)] = seen
        return seen

    def _calls_of(self, module: Module, seen: Outermost) -> ModelCalls:
        if seen.calls is None:
            inner = _unwrapped(module)
            of, made = self._made.get(id(inner), (None, None))
            calls = ModelCalls(module, seen.unseen, made if of and of() is inner else None)
            seen.calls = self._by_kind.setdefault(calls.kind, calls)
            seen.calls.model.unseen = seen.calls.model.unseen or seen.unseen
        return seen.calls


def _making(
    frame: FrameType, class_: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Making:
    making = Making(at=place(frame), arguments={}, others=[])
    if class_.__module__.startswith("torch."):  # a suite cannot refer to a class of torch
        return making
    names = [p.name for p in _named(class_) if p.kind is p.POSITIONAL_OR_KEYWORD]
    by_name = zip_longest(names[: len(args)], args, fillvalue="*")
    for name, value in (*by_name, *kwargs.items()):
        if name != "*" and (plain := _plain(value)):
            making.arguments[name] = plain[0]
        else:
            making.others.append(f"{name} ({type(value).__name__})")
    return making


def _plain(value: Any) -> tuple[Any, ...]:
    """Return a tuple with the value if a suite can contain it, and otherwise an empty tuple."""
    if type(value) in (bool, int, str, type(None)):
        return (value,)
    try:
        plain = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return ()
    return (plain,) if plain == (list(value) if isinstance(value, tuple) else value) else ()


def _unseen_in(torch: ModuleType, module: Module) -> Literal["compiled"] | None:
    """Return `compiled` if a part of `module` that has convolutions is compiled."""
    convolution = torch.nn.modules.conv._ConvNd
    for part in module.modules():
        is_compiled = hasattr(part, "_orig_mod") or part._compiled_call_impl is not None
        if is_compiled and any(isinstance(layer, convolution) for layer in part.modules()):
            return "compiled"
    return None


def _unwrapped(module: Module) -> Module:
    children = dict(module.named_children())
    inner = next((children[name] for name in WRAPPERS if name in children), None)
    return _unwrapped(inner) if inner is not None and len(children) == 1 else module


def _given(torch: ModuleType, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Given:
    """Describe the arguments of a call. Each value of a dict gets its own entry."""

    def parts(name: str | int, value: Any, key: str | None = None) -> Iterator[Any]:
        if isinstance(value, torch.Tensor):
            yield name, key, str(value.dtype).removeprefix("torch."), tuple(value.shape)
        elif isinstance(value, dict) and value:
            for inner, part in value.items():
                yield from parts(name, part, f"{inner}" if key is None else f"{key}.{inner}")
        else:
            yield name, key, type(value).__name__, None

    arguments: list[tuple[str | int, Any]] = [*enumerate(args), *kwargs.items()]
    return tuple(part for name, value in arguments for part in parts(name, value))


def _first_shape(given: Given) -> Sizes | None:
    """Return the first shape with two or more dimensions, preferably of a float tensor."""
    shapes = (shape for part in ("float", "int") for *_, kind, shape in given if part in kind)
    return next((shape for shape in shapes if shape and len(shape) >= 2), None)


def _both(old: Argument, new: Argument) -> Argument:
    if old.kind != new.kind or len(old.shape or ()) != len(new.shape or ()):
        return replace(old, kind="various", shape=None)
    pairs = zip(old.shape or (), new.shape or (), strict=True)
    shape = tuple(tuple(size for size in before if size in now) for before, now in pairs)
    return replace(old, shape=old.shape and shape)


def _file_of(type_: type) -> str | None:
    with suppress(OSError, TypeError):
        return inspect.getsourcefile(type_)
    return None


@cache
def _named(function: Any) -> list[inspect.Parameter]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [parameter for parameter in parameters if parameter.kind in kinds]
