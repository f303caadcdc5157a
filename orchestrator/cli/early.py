"""Exits quietly on early signals, and keeps pyarrow.dataset from the slow import of pandas."""

import os
import signal
import sys

from cudnn_sweep.orchestrator.exit_codes import ExitCode

PROGRAMS = ("sweep", "-m", "__main__.py")  # `-m` while Python imports this package
CODES = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}
IMPORT = "<frozen importlib"  # prefix of the file names of Python's import system


def end(number: int, frame: object) -> None:
    os._exit(CODES[signal.Signals(number)])


class WithoutPandas:
    def find_spec(self, fullname: str, *where: object) -> None:
        frame = sys._getframe(1) if fullname == "pandas" else None
        while frame and frame.f_code.co_filename.startswith(IMPORT):
            frame = frame.f_back
        if frame and frame.f_globals["__name__"] == "pyarrow.dataset":
            raise ModuleNotFoundError(name=fullname)


if os.path.basename(sys.argv[0]) in PROGRAMS:  # not inside another program
    sys.meta_path.insert(0, WithoutPandas())
    for each in CODES:
        if signal.getsignal(each) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(each, end)
