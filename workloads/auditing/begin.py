"""Begins an audit before Python runs the user's script."""

import atexit
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from time import monotonic
from types import ModuleType
from typing import NoReturn, cast

from cudnn_sweep.workloads.auditing.convolutions import Convolutions, arrivals_at, new_in_tail
from cudnn_sweep.workloads.auditing.findings import SCHEMA_VERSION, Findings, OwnErrors
from cudnn_sweep.workloads.auditing.loop import LoopTimes
from cudnn_sweep.workloads.auditing.models import Models
from cudnn_sweep.workloads.auditing.writes import Writes, variables_now

VARIABLE = "CUDNN_SWEEP_AUDIT"
"""Environment variable with JSON. `findings` is the file to write, `modules` is the folder of the
script, `steps` is the limit of calls of a model, and `python_path` is the user's PYTHONPATH."""
END = signal.SIGRTMAX - 2  # signal that ends a script at its limit of calls


def begin(folder: str, before: Collection[str]) -> None:
    """Begin the audit and remove `folder` from sys.path. Modules in `before` stay imported."""
    request = json.loads(os.environ.pop(VARIABLE))
    sys.path.remove(folder)
    if request["python_path"] is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = request["python_path"]
    _Audit(request["findings"], request["steps"]).begin()
    for name in {*sys.modules}.difference(before):
        path = os.path.join(request["modules"], name.partition(".")[0])
        if os.path.exists(f"{path}.py") or os.path.isdir(path):
            del sys.modules[name]  # the script will import its own
    _import_their_own_sitecustomize()


def _import_their_own_sitecustomize() -> None:
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if ours is not None:
            sys.modules["sitecustomize"] = ours  # the import that is running needs it


class _Audit:
    def __init__(self, file: str, steps: int | None) -> None:
        self._file = file
        self._steps = steps
        self._process = os.getpid()
        self._began = monotonic()
        self._own = OwnErrors()
        self._convolutions = Convolutions(self._own)
        self._loop = LoopTimes(self._own)
        self._models = Models(self._own, self._convolutions, self._loop, self._end_after)
        self._writes = Writes(self._own, self._convolutions.calls, f"{file}.")
        self._torch: ModuleType | None = None
        self._variables_at_start = variables_now()
        self._limit_reached = False

    def begin(self) -> None:
        atexit.register(self._write)  # runs last, because it is registered first
        signal.signal(END, lambda *_: self._end())
        self._watch_ends()
        self._writes.watch_variables()
        sys.meta_path.insert(0, AtImport("torch", self._watch_torch))

    def _watch_torch(self, torch: ModuleType) -> None:
        self._torch = torch
        self._convolutions.watch(torch)
        self._loop.watch(torch)
        self._models.watch(torch)
        self._writes.watch_flags(torch)

    def _watch_ends(self) -> None:
        """Make os._exit write the findings, because it does not run atexit functions."""
        end = os._exit

        def _exit(status: int) -> NoReturn:
            try:
                self._write()
            finally:
                end(status)

        os._exit = _exit

    def _end_after(self, calls: int) -> None:
        """End the script if the number of `calls` of a model has reached the limit."""
        if self._steps is not None and calls >= self._steps:
            signal.pthread_kill(threading.main_thread().ident or 0, END)

    def _end(self) -> NoReturn:
        self._limit_reached = True
        self._write()  # in case the script catches SystemExit
        raise SystemExit(0)

    def _write(self) -> None:
        if os.getpid() != self._process:
            return  # a process that the script forked
        part = f"{self._file}.part"
        with self._own:
            # characters that UTF-8 cannot encode are replaced by `?`
            with open(part, "w", encoding="utf-8", errors="replace") as file:
                json.dump(asdict(self._findings()), file, ensure_ascii=False)
            os.replace(part, self._file)

    def _findings(self) -> Findings:
        torch, convolutions = self._torch, self._convolutions.distinct()
        calls, arrived = self._convolutions.calls(), [plan.arrived_at for plan in convolutions]
        on_gpu = torch if torch is not None and torch.cuda.is_initialized() else None
        last_error = getattr(sys, "last_type", None)  # class of the error that Python printed
        return Findings(
            schema_version=SCHEMA_VERSION,
            python=sys.version.split()[0],
            torch=None if torch is None else torch.__version__,
            cuda=None if torch is None else torch.version.cuda,
            gpu=on_gpu.cuda.get_device_name() if on_gpu else None,
            cudnn=_cudnn_version(on_gpu) if on_gpu else None,
            wall_s=monotonic() - self._began,
            limit_reached=self._limit_reached,
            error=last_error and last_error.__name__,
            writes=self._writes.writes(),
            flags_at_end=self._writes.flags(),
            variables_at_start=self._variables_at_start,
            calls=calls,
            not_told_apart=self._convolutions.not_told_apart,
            arrivals=arrivals_at(arrived, calls),
            new_in_last_tenth=new_in_tail(arrived, calls),
            convolutions=convolutions,
            models=self._models.summaries(),
            gpu_loop=self._loop.summary(),
            own_errors=tuple(sorted(self._own.texts)),
        )


def _cudnn_version(torch: ModuleType) -> int | None:
    with suppress(RuntimeError):  # torch was built with another cuDNN
        return cast("int | None", torch.backends.cudnn.version())
    return None


class AtImport(MetaPathFinder):
    """Calls `do` with the module `name` when the script imports it."""

    def __init__(self, name: str, do: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._do = do

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and (loader := spec.loader) is not None:

            def exec_module(module: ModuleType) -> None:
                del loader.exec_module  # restores the loader's own method
                loader.exec_module(module)
                self._do(module)

            loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
