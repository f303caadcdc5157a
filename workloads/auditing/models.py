"""Notes what the script's models are called with: the arguments of each outermost module."""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import wraps
from threading import get_ident
from types import FrameType, ModuleType
from typing import Any, Literal
from weakref import WeakKeyDictionary

from cudnn_sweep.workloads.auditing.convolutions import Convolutions
from cudnn_sweep.workloads.auditing.findings import Argument, InputShape, Model, Sizes
from cudnn_sweep.workloads.auditing.imported import when_imported
from cudnn_sweep.workloads.auditing.own_errors import OwnErrors
from cudnn_sweep.workloads.problem import MOST_SIZES, named_sizes
from cudnn_sweep.workloads.training.loss import own_loss

WRAPPERS = ("module", "_orig_mod")
"""Where DataParallel, DistributedDataParallel and torch.compile keep the model that they wrap."""
FEWEST_SIZES = 2  # of a batch: a loss or a learning rate has fewer

Module = Any  # torch is not imported here
Given = tuple[tuple[str | int, str | None, str, Sizes | None], ...]
"""Of each Argument of a call name, key, kind and shape."""


class ModelCalls:
    def __init__(self, module: Module, unseen: Literal["compiled"] | None) -> None:
        inner = _unwrapped(module)
        self.type: type = type(inner)
        self.model = Model(
            name=self.type.__qualname__,
            module=self.type.__module__,
            file=_file_of(self.type),  # now: as a script ends, Python forgets its file
            wrapped_in=None if inner is module else type(module).__name__,
            required_arguments=_required_arguments(self.type),
            parameters=tuple(each.name for each in _named(getattr(self.type, "forward", None))[1:]),
            unseen=unseen,
        )
        self._shapes: dict[Sizes, list[int]] = {}
        self._arguments: dict[tuple[bool, str | int, str | None], Argument] = {}
        self._noted: set[tuple[bool, Given]] = set()

    def note(self, given: Given, convolutions: int, training: bool, output: object) -> None:
        model = self.model
        model.calls += 1
        model.convolutions += convolutions
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
        named = named_sizes(first) if first and len(first) <= MOST_SIZES else {}
        for name, key, kind, sizes in given:
            told: list[tuple[int | str, ...]] = [
                (size, *(each for each in named if named[each] == size)) for size in sizes or ()
            ]
            shape = None if sizes is None else tuple(told)
            new = Argument(training=training, name=name, key=key, kind=kind, shape=shape)
            old = self._arguments.get((training, name, key), new)
            self._arguments[training, name, key] = _both(old, new)

    def found(self) -> Model:
        shapes = self._shapes.items()
        return replace(
            self.model,
            arguments=tuple(self._arguments.values()),
            shapes=tuple(
                InputShape(shape=shape, training=training, inference=inference)
                for shape, (inference, training) in shapes
            ),
        )


class Models:
    """Classes of models get a `__call__` of ours, and no other class: what a usual module costs stays as it is.

    A class is found by its first convolution: of the modules whose call is on the stack, the outermost is the
    model. Those that show no convolution, as they are compiled, are looked at from the start.
    """

    def __init__(
        self, own: OwnErrors, convolutions: Convolutions, ending: Callable[[int], None]
    ) -> None:
        """`ending`: gets the most calls of a model, before the next one."""
        self._own = own
        self._convolutions = convolutions
        self._ending = ending
        self._by_kind: dict[tuple[type, str], ModelCalls] = {}
        self._by_module: WeakKeyDictionary[Module, tuple[ModelCalls, bool]] = WeakKeyDictionary()
        self._torch: Any = None

    def found(self) -> tuple[Model, ...]:
        """The one that runs most convolutions comes first."""
        called = [each.found() for each in list(self._by_kind.values()) if each.model.calls]
        return tuple(sorted(called, key=lambda model: -model.convolutions))

    def watch(self, torch: ModuleType) -> None:
        global _models, _plain_call, _is_compiling
        self._torch = torch
        _models, _plain_call = self, torch.nn.Module.__call__
        _is_compiling = torch.compiler.is_dynamo_compiling
        self._convolutions.outside = self._look_outside
        self._watch_class_of_torch(torch.nn.DataParallel)
        self._watch_compile(torch)
        when_imported(
            "torch._dynamo.eval_frame",
            lambda dynamo: self._watch_class_of_torch(dynamo.OptimizedModule),
        )

    def call(
        self,
        plain_call: Callable[..., Any],
        module: Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        convolutions, thread = self._convolutions, get_ident()
        if thread in convolutions.inside:
            return plain_call(module, *args, **kwargs)
        self._ending(max((each.model.calls for each in self._by_kind.values()), default=0))
        convolutions.inside.add(thread)
        try:
            in_threads = isinstance(module, self._torch.nn.DataParallel)
            called = convolutions.calls if in_threads else lambda: convolutions.called[thread]
            before = called()
            given: Given = ()
            with self._own:
                given = _given(self._torch, args, kwargs)
            output = plain_call(module, *args, **kwargs)
            with self._own:
                if not getattr(module, "_is_replica", False):  # of DataParallel, noted itself
                    self._note(module, given, called() - before, output)
            return output
        finally:
            convolutions.inside.discard(thread)

    def _watch_class_of_torch(self, class_: type) -> None:
        plain_call: Callable[..., Any] = class_.__call__
        compiling = self._torch.compiler.is_dynamo_compiling

        @wraps(plain_call)
        def __call__(module: Module, *args: Any, **kwargs: Any) -> Any:
            if compiling():
                return plain_call(module, *args, **kwargs)
            return self.call(plain_call, module, args, kwargs)

        class_.__call__ = __call__  # type: ignore[method-assign]

    def _watch_compile(self, torch: ModuleType) -> None:
        """module.compile() leaves the module's class as it is."""
        plain_compile = torch.nn.Module.compile

        @wraps(plain_compile)
        def compile(module: Module, *args: Any, **kwargs: Any) -> None:
            plain_compile(module, *args, **kwargs)
            with self._own:
                self._watch_class(type(module))

        torch.nn.Module.compile = compile

    def _watch_class(self, class_: type) -> bool:
        """Whether it is watched from now on. One with a `__call__` of its own is left alone."""
        if class_.__call__ is not _plain_call:
            return False
        class_.__call__ = watched_call  # type: ignore[method-assign]
        return True

    def _look_outside(self) -> None:
        """A convolution was called outside of the models that are known."""
        with self._own:
            frame: FrameType | None = sys._getframe(1)
            outermost: FrameType | None = None
            code = self._torch.nn.Module._call_impl.__code__
            while frame is not None:
                if frame.f_code is code:
                    outermost = frame
                frame = frame.f_back
            if outermost is not None:
                self._begin_with(outermost.f_locals)

    def _begin_with(self, call: Mapping[str, Any]) -> None:
        """The first call of a class: it is running, and is noted here."""
        module = call["self"]
        if isinstance(module, self._torch.nn.modules.conv._ConvNd):
            return  # alone, or in a model that is not called as one
        is_new = self._watch_class(type(module))
        if getattr(module, "_is_replica", False):
            return  # DataParallel is noted itself
        if is_new:
            self._note(module, _given(self._torch, call["args"], call["kwargs"]), 1, None)
        elif type(module).__call__ is watched_call:
            self._calls_of(module)[0].model.convolutions += 1  # of that first call

    def _note(self, module: Module, given: Given, convolutions: int, output: object) -> None:
        """A module without any convolution, such as a loss, is no model here."""
        calls, has_unseen = self._calls_of(module)
        if convolutions or has_unseen:
            calls.note(given, convolutions, self._torch.is_grad_enabled(), output)

    def _calls_of(self, module: Module) -> tuple[ModelCalls, bool]:
        """Those of its class, and whether this module has convolutions that are not seen."""
        if module not in self._by_module:
            unseen = _unseen_in(self._torch, module)
            made = ModelCalls(module, unseen)
            calls = self._by_kind.setdefault((made.type, made.model.name), made)
            calls.model.unseen = calls.model.unseen or unseen
            self._by_module[module] = calls, unseen is not None
        return self._by_module[module]


def _call_of_any_module(module: Module, *args: Any, **kwargs: Any) -> Any:
    from torch import nn

    return nn.Module.__call__(module, *args, **kwargs)


_models: Models | None = None
_plain_call: Callable[..., Any] = _call_of_any_module
_is_compiling: Callable[[], bool] = bool


def watched_call(module: Module, *args: Any, **kwargs: Any) -> Any:
    """Stands in a model's class. Pickled with that class, it calls the module wherever it is read back."""
    if _is_compiling() or _models is None:
        return _plain_call(module, *args, **kwargs)
    return _models.call(_plain_call, module, args, kwargs)


def _unseen_in(torch: ModuleType, module: Module) -> Literal["compiled"] | None:
    """Whether it holds convolutions that compiled code runs."""
    convolution = torch.nn.modules.conv._ConvNd
    compiled = (part for each in module.modules() if _is_compiled(each) for part in each.modules())
    return "compiled" if any(isinstance(part, convolution) for part in compiled) else None


def _is_compiled(module: Module) -> bool:
    """By torch.compile(module), or by module.compile()."""
    return hasattr(module, "_orig_mod") or module._compiled_call_impl is not None


def _unwrapped(module: Module) -> Module:
    children = dict(module.named_children())
    inner = next((children[name] for name in WRAPPERS if name in children), None)
    return _unwrapped(inner) if inner is not None and len(children) == 1 else module


def _given(torch: ModuleType, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Given:
    """A dict's parts one by one: a list of images has no one shape."""

    def parts(name: str | int, value: Any, key: str | None = None) -> Iterator[Any]:
        if isinstance(value, torch.Tensor):
            yield name, key, str(value.dtype).removeprefix("torch."), tuple(value.shape)
        elif isinstance(value, dict) and value:
            for inner, part in value.items():
                yield from parts(name, part, f"{inner}" if key is None else f"{key}.{inner}")
        else:
            yield name, key, type(value).__name__, None

    named: list[tuple[str | int, Any]] = [*enumerate(args), *kwargs.items()]
    return tuple(part for name, value in named for part in parts(name, value))


def _first_shape(given: Given) -> Sizes | None:
    shapes = (shape for *_, kind, shape in given if "float" in kind)
    return next((each for each in shapes if each and len(each) >= FEWEST_SIZES), None)


def _both(one: Argument, other: Argument) -> Argument:
    if one.kind != other.kind or len(one.shape or ()) != len(other.shape or ()):
        return replace(one, kind="various", shape=None)
    pairs = zip(one.shape or (), other.shape or (), strict=True)
    shape = tuple(tuple(each for each in mine if each in theirs) for mine, theirs in pairs)
    return replace(one, shape=one.shape and shape)


def _file_of(type_: type) -> str | None:
    try:
        return inspect.getsourcefile(type_)
    except (OSError, TypeError):
        return None


def _required_arguments(type_: type) -> tuple[str, ...]:
    return tuple(each.name for each in _named(type_) if each.default is each.empty)


def _named(function: Any) -> list[inspect.Parameter]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [each for each in parameters if each.kind in named]
