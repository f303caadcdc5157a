"""Finds processes with torch that a script starts. An audit does not see these processes."""

import os
from contextlib import suppress
from pathlib import Path

LIBRARY = b"/libtorch_python"
OF_TORCH = b"/_inductor/"  # in the command line of a compile worker of torch.compile


class Others:
    """Descendants of a script that have loaded torch. They are found in /proc."""

    def __init__(self) -> None:
        self._loaded: set[int] = set()
        self.found: set[int] = set()

    def look(self, process: int, parent: bytes | None = None) -> None:
        """Add the process and its descendants to `found` if they have loaded torch.

        Compile workers and forks of a process with torch are left out.
        """
        with suppress(OSError):  # the process has ended
            command = _read(process, "cmdline")
            began = command + _read(process, "environ")
            # A fork has the command line and environment of its parent.
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
