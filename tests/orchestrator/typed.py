"""Python and `sweep` as they are typed: each in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

Done: TypeAlias = "subprocess.CompletedProcess[str]"


def python(*words: str, here: Path | None = None, **environment: str) -> Done:
    return subprocess.run(
        [sys.executable, *words],
        cwd=here,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def sweep(*words: str, here: Path | None = None, **environment: str) -> Done:
    return python("-m", "cudnn_sweep.orchestrator.cli", *words, here=here, **environment)
