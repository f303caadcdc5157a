"""Ends the program with our exit code, not a traceback, if Ctrl-C or SIGTERM comes in imports."""

import os
import signal
import sys

from cudnn_sweep.orchestrator.exit_codes import ExitCode

PROGRAMS = ("sweep", "-m", "__main__.py")  # `-m`: while Python imports this package to run it
CODES = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}


def end(number: int, frame: object) -> None:
    os._exit(CODES[signal.Signals(number)])


if os.path.basename(sys.argv[0]) in PROGRAMS:  # and not inside another program
    for each in CODES:
        if signal.getsignal(each) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(each, end)
