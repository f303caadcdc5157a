"""Finds the torch processes that a script starts. The audit cannot see what these do."""

import os
from contextlib import suppress
from pathlib import Path

LIBRARY = b"/libtorch_python"
OF_TORCH = b"/_inductor/"  # in the command line of a compile worker of torch.compile


class Others:
    """Finds the script's descendants that have loaded torch. It only reads /proc."""

    def __init__(self) -> None:
        self._loaded: set[int] = set()
        self.found: set[int] = set()

    def look(self, process: int, parent: bytes | None = None) -> None:
        """Add the process and its descendants to `found` if they have loaded torch.

        Leave out compile workers, and forks of a process with torch. A fork has the command line
        and environment of its `parent`.
        """
        with suppress(OSError):  # the process has ended
            command = _read(process, "cmdline")
            began = command + _read(process, "environ")
            has_torch = began == parent or process in self._loaded
            if not has_torch and LIBRARY in _read(process, "maps"):
                self._loaded.add(process)
                if OF_TORCH not in command:
                    self.found.add(process)
            for thread in os.listdir(f"/proc/{process}/task"):
                for child in _read(process, f"task/{thread}/children").split():
                    self.look(int(child), began if has_torch else None)


def _read(process: int, file: str) -> bytes:
    return Path("/proc", str(process), file).read_bytes()
