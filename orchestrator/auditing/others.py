"""Watches which processes a script starts that load torch: an audit sees nothing of them."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

LIBRARY = b"/libtorch_python"
OF_TORCH = b"_inductor"  # what compiles for torch.compile

Looks = tuple[bytes, bytes]
"""Command line and environment of a process as it began: those of a fork are its parent's."""


class Others:
    """The script's descendants, looked at from outside: the audit leaves no mark on them."""

    def __init__(self, script: int) -> None:
        self._script = script
        self._loaded: set[int] = set()
        self.found: set[int] = set()
        """Those that loaded torch themselves: no fork of a process that had loaded it."""

    def look(self) -> None:
        with suppress(OSError):
            self._look(self._script, _looks(self._script), None)

    def _look(self, process: int, looks: Looks, parent: Looks | None) -> None:
        """`parent`: the looks of the parent, if that has loaded torch."""
        if process not in self._loaded and looks != parent and _has_torch(process):
            self._loaded.add(process)
            if process != self._script and OF_TORCH not in looks[0]:
                self.found.add(process)
        has_torch = looks == parent or process in self._loaded
        for child in _children(process):
            with suppress(OSError):  # it has ended
                self._look(child, _looks(child), looks if has_torch else None)


def _looks(process: int) -> Looks:
    folder = Path("/proc", str(process))
    return (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()


def _has_torch(process: int) -> bool:
    return LIBRARY in Path("/proc", str(process), "maps").read_bytes()


def _children(process: int) -> Iterator[int]:
    for thread in os.listdir(f"/proc/{process}/task"):
        with suppress(OSError):
            yield from map(int, Path(f"/proc/{process}/task/{thread}/children").read_text().split())
