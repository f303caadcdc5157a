"""What an audit cannot see, with what says that the script does it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from types import ModuleType
from typing import Any

from cudnn_sweep.workloads.auditing.findings import Convolution, Model, NotSeen

BACKWARD = (
    "backward passes of convolutions, which autograd runs from C++ (the first of each is timed)"
)
DIRECT = "convolutions from C++ extensions, torch.ops or torch.convolution"


class Elsewhere:
    """Counts what happens where an audit does not look."""

    def __init__(self) -> None:
        self.forks = self.pythons = self.replays = 0

    def watch_processes(self) -> None:
        os.register_at_fork(after_in_parent=self._forked)
        import _posixsubprocess

        for module, name in ((subprocess, "_fork_exec"), (_posixsubprocess, "fork_exec")):
            if hasattr(module, name):
                setattr(module, name, self._noting_start(getattr(module, name)))

    def watch_graphs(self, torch: ModuleType) -> None:
        replay = torch.cuda.CUDAGraph.replay

        @wraps(replay)
        def noting(graph: Any) -> Any:
            self.replays += 1
            return replay(graph)

        torch.cuda.CUDAGraph.replay = noting

    def _forked(self) -> None:
        self.forks += 1

    def _noting_start(self, start: Callable[..., int]) -> Callable[..., int]:
        @wraps(start)
        def noting(args: Any, *rest: Any) -> int:
            if args and os.path.basename(os.fsdecode(args[0])).startswith("python"):
                self.pythons += 1
            return start(args, *rest)

        return noting

    def not_seen(
        self,
        convolutions: Iterable[Convolution],
        models: Iterable[Model],
        transformed: int,
        flags_from_elsewhere: list[str],
    ) -> tuple[NotSeen, ...]:
        found = {"other processes": self._processes()}
        if "torch" in sys.modules:
            replays, vmaps = f"graphs were replayed {_times(self.replays)}", _times(transformed)
            found = {
                BACKWARD: _backward(tuple(convolutions)),
                "convolutions in compiled code": _compiled(tuple(models)),
                "convolutions in TorchScript": _scripted(tuple(models)),
                "convolutions in a CUDA graph": [replays] if self.replays else [],
                "convolutions in torch.func.vmap and its like": [f"called {vmaps}"]
                if transformed
                else [],
                DIRECT: [],
                "flags that C++ code sets": flags_from_elsewhere,
                **found,
            }
        return tuple(
            NotSeen(what=what, evidence="; ".join(told) or None) for what, told in found.items()
        )

    def _processes(self) -> list[str]:
        forked = f"{_count(self.forks, 'process', 'es')} forked, as DataLoader's workers are"
        started = f"{_count(self.pythons, 'Python process', 'es')} started"
        return [*([forked] if self.forks else []), *([started] if self.pythons else [])]


def _backward(convolutions: tuple[Convolution, ...]) -> list[str]:
    passed = sum(each.first_backward_s is not None for each in convolutions)
    return [f"{passed} of {len(convolutions)} distinct convolutions had one"] if passed else []


def _compiled(models: tuple[Model, ...]) -> list[str]:
    named = [_called(each) for each in models if each.unseen == "compiled"]
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    graphs = counters["stats"]["unique_graphs"] if "stats" in counters else 0
    return [*named, *([f"torch.compile made {_count(graphs, 'graph', 's')}"] if graphs else [])]


def _scripted(models: tuple[Model, ...]) -> list[str]:
    return [_called(each) for each in models if each.unseen == "scripted"]


def _called(model: Model) -> str:
    return f"{model.name} has some and was called {_times(model.calls)}"


def _times(number: int) -> str:
    return _count(number, "time", "s")


def _count(number: int, what: str, plural: str) -> str:
    return f"{number:,} {what}{plural if number != 1 else ''}"
