"""Keeps pandas out of commands: none needs it, and its import by pyarrow.dataset takes a third of a second."""

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from cudnn_sweep.orchestrator.cli.early_signals import PROGRAMS

IMPORT = "<frozen importlib"  # begins the file names of Python's own import


class WithoutPandas(MetaPathFinder):
    """Finder that hides pandas from pyarrow.dataset alone. Ray still finds pandas; so does a table's `to_pandas`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        frame = sys._getframe(1) if fullname == "pandas" else None
        while frame and frame.f_code.co_filename.startswith(IMPORT):
            frame = frame.f_back
        if frame and frame.f_globals["__name__"] == "pyarrow.dataset":
            raise ModuleNotFoundError(name=fullname)
        return None


if os.path.basename(sys.argv[0]) in PROGRAMS:  # and not inside another program
    sys.meta_path.insert(0, WithoutPandas())
