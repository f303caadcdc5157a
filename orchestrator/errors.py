"""What goes wrong here through no fault of ours; the command line shows these without a traceback, beside
WorkloadError, ClusterError and AnalysisError of the other folders. Each has the exit code that a command ends with.

OrchestratorError
├── SpecError          what was asked for cannot be planned or scheduled
│   ├── NeedsGpuError  it can be on a GPU
│   └── ModelError     the user's model does not run
├── SweepBusyError     another launch is running this sweep, or measures on this device
├── ServerError        a fork server would not start or died
│   └── PythonError    that of another environment's Python does not come up
├── UnfinishedError    what the launch needs to go on is gone
├── WebhookError       news could not be delivered
├── ReproError         torch alone cannot reproduce a case or a trial
└── OutputError        a file that the user named cannot be written
"""

import errno
from typing import Self

from cudnn_sweep.orchestrator.exit_codes import ExitCode

NOBODYS_FAULT = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.EPIPE,
}  # a full or a bad disk, a closed pipe


class OrchestratorError(Exception):
    """Shown by the command line without a traceback."""

    exit_code = ExitCode.USAGE


class SpecError(OrchestratorError):
    """Says what was asked for, and what is allowed."""


class NeedsGpuError(SpecError):
    """Says what needs a GPU, and why there is none."""

    exit_code = ExitCode.NEEDS_GPU


class ModelError(SpecError):
    """Says what became of the user's code."""

    exit_code = ExitCode.DOES_NOT_RUN


class SweepBusyError(OrchestratorError):
    """Names the launch that holds the sweep or the device."""

    exit_code = ExitCode.UNFINISHED


class ServerError(OrchestratorError):
    """Carries the server's own last output."""

    exit_code = ExitCode.UNFINISHED


class PythonError(ServerError):
    """Names the Python, and why it cannot be used."""

    exit_code = ExitCode.USAGE


class UnfinishedError(OrchestratorError):
    """Something that the launch needs is gone."""

    exit_code = ExitCode.UNFINISHED


class WebhookError(OrchestratorError):
    """Names the host; the rest of the URL is a secret."""


class ReproError(OrchestratorError):
    """Names the case or the trial, and why a script of torch alone cannot reproduce it."""


class OutputError(OrchestratorError):
    """Names the file. A full disk is not the user's mistake."""

    @classmethod
    def of(cls, file: object, error: OSError) -> Self:
        made = cls(f"cannot write {file}: {error.strerror}")
        made.exit_code = code_of(error)
        return made


def code_of(error: OSError) -> ExitCode:
    return ExitCode.UNFINISHED if error.errno in NOBODYS_FAULT else ExitCode.USAGE
