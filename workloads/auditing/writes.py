"""Notes each write of a cuDNN flag, or of an environment variable of cuDNN or CUDA."""

import os
import sys
import sysconfig
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial, wraps
from threading import RLock
from types import FrameType, ModuleType
from typing import Any, Literal, TypeVar

from cudnn_sweep.workloads.auditing.findings import OwnErrors, SourceLine, Value, Write

PREFIXES = ("TORCH_CUDNN_", "CUDNN_", "CUDA_CACHE_", "CUBLAS_")
VARIABLES = (
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
)
FLAGS = {
    "enabled": ("_get_cudnn_enabled", "_set_cudnn_enabled"),
    "benchmark": ("_get_cudnn_benchmark", "_set_cudnn_benchmark"),
    "benchmark_limit": ("_cuda_get_cudnn_benchmark_limit", "_cuda_set_cudnn_benchmark_limit"),
    "deterministic": ("_get_cudnn_deterministic", "_set_cudnn_deterministic"),
    "allow_tf32": ("_get_cudnn_allow_tf32", "_set_cudnn_allow_tf32"),
    "depthwise_kernel": ("_get_cudnn_depthwise_kernel", "_set_cudnn_depthwise_kernel"),
    "use_deterministic_algorithms": (
        "_get_deterministic_algorithms",
        "_set_deterministic_algorithms",
    ),
}
"""Names of getter and setter in torch._C, by flag. Some builds of torch lack some of them."""
PRECISIONS = {
    ("generic", "all"): "fp32_precision of torch.backends",
    ("cuda", "all"): "fp32_precision",
    ("cuda", "conv"): "conv.fp32_precision",
    ("cuda", "rnn"): "rnn.fp32_precision",
}
"""Names of precision flags, by the setter's arguments. The flag of matrix products is left out."""
PRECISION = ("_get_fp32_precision_getter", "_set_fp32_precision_setter")

R = TypeVar("R")

OURS = os.path.dirname(__file__) + os.sep
GENERATED = ("<frozen ", "<eval_with_key>")
"""Beginnings of file names, for frozen modules of Python and for code that torch generates."""
PASSING_ON = {
    os.path.join(sysconfig.get_path("stdlib"), f"{name}.py")
    for name in ("contextlib", "os", "_collections_abc", "functools")
}
"""Files of the standard library that only pass a write on, and so do not count as its writer."""
INSTALLED = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
NOT_OWN = (*(folder + os.sep for folder in INSTALLED), OURS, "<")
"""Path prefixes of files that are not the user's own code."""


def place(frame: FrameType) -> SourceLine:
    return SourceLine(
        file=frame.f_code.co_filename, line=frame.f_lineno, function=frame.f_code.co_qualname
    )


class Writes:
    def __init__(self, own: OwnErrors, calls: Callable[[], int], elsewhere: str) -> None:
        """`calls` returns the number of convolution calls so far.

        If a forked process sets a flag, it creates the file `elsewhere` + its pid.
        """
        self._own = own
        self._elsewhere, self._process = elsewhere, os.getpid()
        self._torch = "\0"  # folder of the package torch, once imported
        self._setters: tuple[str, ...] = ()
        """Path prefixes of torch's files whose functions set flags on behalf of their callers."""
        self._calls = calls
        self._seen: dict[tuple[object, ...], Write] = {}
        self._by_torch: dict[str, tuple[Value, Value]] = {}
        """Each flag's value before torch's first write of it, and its value after the last."""
        self._lock = RLock()  # reentrant: the signal that ends the script may come while it is held
        self._flags: dict[str, Callable[[], Value]] = {}

    def writes(self) -> tuple[Write, ...]:
        """Return the writes, except torch's own writes to a flag that torch set back later."""
        with self._lock:
            back = {name for name, (first, last) in self._by_torch.items() if first == last}
            writes = self._seen.values()
            return tuple(w for w in writes if w.name not in back or not self._is_torchs(w.at))

    def _is_torchs(self, at: SourceLine) -> bool:
        return at.file.startswith(self._torch)

    def flags(self) -> dict[str, Value]:
        """Return each flag's current value. The result is empty until torch is imported."""
        return {name: _value_of(get) for name, get in self._flags.items()}

    def watch_variables(self) -> None:
        os.putenv = self._noting_variable(os.putenv)
        os.unsetenv = self._noting_variable(os.unsetenv)

    def watch_flags(self, torch: ModuleType) -> None:
        self._torch = os.path.dirname(torch.__file__ or "") + os.sep
        self._setters = f"{self._torch}__init__.py", f"{self._torch}backends{os.sep}"
        for name, (getter, setter) in FLAGS.items():
            get, set_ = (getattr(torch._C, function, None) for function in (getter, setter))
            if get is not None and set_ is not None:
                self._flags[name] = get
                self._replace(torch, setter, self._noting(set_, lambda *_, flag=name: flag))
        get, set_ = (getattr(torch._C, name, None) for name in PRECISION)
        if get is not None and set_ is not None:
            self._flags |= {name: partial(get, *key) for key, name in PRECISIONS.items()}
            noting = self._noting(set_, lambda *given: PRECISIONS.get(given[:2]))
            self._replace(torch, PRECISION[1], noting)

    def _replace(self, torch: ModuleType, name: str, noting: Callable[..., object]) -> None:
        before = getattr(torch._C, name)
        setattr(torch._C, name, noting)
        for attribute in vars(type(torch.backends.cudnn)).values():
            if getattr(attribute, "setter", None) is before:
                attribute.setter = noting

    def _noting(
        self, set_: Callable[..., R], name_of: Callable[..., str | None]
    ) -> Callable[..., R]:
        """Return a setter that notes a write if `name_of` finds a watched flag in the arguments."""

        @wraps(set_)
        def setter(*args: Any, **kwargs: Any) -> R:
            name = name_of(*args)
            if name is None:
                return set_(*args, **kwargs)
            before = _value_of(self._flags[name])
            done = set_(*args, **kwargs)
            self._note("flag", name, before, _value_of(self._flags[name]))
            return done

        return setter

    def _noting_variable(self, do: Callable[..., None]) -> Callable[..., None]:
        @wraps(do)
        def change(name: Any, *value: Any) -> None:
            do(name, *value)
            text = os.fsdecode(name)
            if text.startswith(PREFIXES) or text in VARIABLES:
                after = os.fsdecode(value[0]) if value else None
                self._note("variable", text, os.environ.get(text), after)  # still the old value

        return change

    def _writer(self) -> tuple[SourceLine, SourceLine | None] | None:
        """Return the writer's line, and the innermost line of the user's own code in another file.

        The writer is code outside torch, or torch's own code if torch writes unasked.
        """
        frame: FrameType | None = sys._getframe()
        of_torch: FrameType | None = None
        while frame is not None and self._passes_on(frame.f_code.co_filename):
            file = frame.f_code.co_filename
            if file.startswith(self._torch) and not file.startswith(self._setters):
                of_torch = of_torch or frame
            frame = frame.f_back
        writer = of_torch or frame
        if writer is None:
            return None
        own: FrameType | None = writer
        while own is not None and (
            own.f_code.co_filename == writer.f_code.co_filename
            or own.f_code.co_filename.startswith(NOT_OWN)
        ):
            own = own.f_back
        return place(writer), None if own is None else place(own)

    def _passes_on(self, file: str) -> bool:
        return file in PASSING_ON or file.startswith((self._torch, OURS, *GENERATED))

    def _note(
        self, kind: Literal["flag", "variable"], name: str, before: Value, after: Value
    ) -> None:
        with self._own, self._lock:
            if kind == "flag" and (process := os.getpid()) != self._process:
                open(f"{self._elsewhere}{process}", "w").close()
            places = self._writer()
            if places is None:
                return
            at, called_from = places
            if self._is_torchs(at):
                self._by_torch[name] = self._by_torch.get(name, (before,))[0], after
            alike: dict[str, Any] = {"kind": kind, "name": name, "before": before, "after": after}
            alike |= {"at": at, "called_from": called_from}
            key = tuple(alike.values())
            seen = self._seen.get(key) or Write(**alike, times=0, at_call=self._calls())
            self._seen[key] = replace(seen, times=seen.times + 1)


def variables_now() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(PREFIXES) or name in VARIABLES
    }


def _value_of(get: Callable[[], Value]) -> Value:
    with suppress(RuntimeError):  # as once torch's other interface to TF32 was used
        value = get()
        return value if isinstance(value, bool | int | str) else str(value)
    return None
