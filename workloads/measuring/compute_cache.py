"""ComputeCache: the state of CUDA's on-disk cache of compiled kernels, under the trial's control.

Benchmark mode builds engines that are compiled at run time; the driver keeps what it compiles. A fresh
process does not empty that cache, so a cold cost means little without its state. Each (GPU, cell,
config) has a folder of its own, and never the user's `~/.nv`.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class ComputeCache:
    folder: Path
    state: Literal["empty", "warm"]
    """Warm where an earlier trial has used the folder, also if it had nothing to compile."""
    entries_before: int

    def entries_added(self) -> int:
        return _count(self.folder) - self.entries_before


def use_compute_cache(folder: Path) -> ComputeCache:
    """Point CUDA at `folder`; in force if called before the process's first CUDA call."""
    used = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["CUDA_CACHE_PATH"] = str(folder)
    os.environ.pop("CUDA_CACHE_DISABLE", None)
    return ComputeCache(
        folder=folder, state="warm" if used else "empty", entries_before=_count(folder)
    )


def _count(folder: Path) -> int:
    """Files that hold compiled kernels; the driver's index is none of them."""
    return sum(1 for file in folder.rglob("*") if file.is_file() and file.name != "index")
