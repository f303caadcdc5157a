"""What a command that we print for the user begins with."""

import os
import shutil
import sys
from pathlib import Path


def program() -> str:
    """`make` starts us from .venv, where the user's shell does not look."""
    typed = Path(sys.argv[0])
    if typed.name != "sweep" or shutil.which("sweep"):
        return "sweep"
    return os.path.relpath(typed)
