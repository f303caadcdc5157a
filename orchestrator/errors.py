"""Errors that are no fault of ours, and the exit code of each: the command line prints these without a
traceback, beside WorkloadError, ClusterError and AnalysisError of the other folders.

OrchestratorError
├── SpecError          what was asked for cannot be planned or scheduled
│   ├── NeedsGpuError  it needs a GPU, and there is none
│   └── ModelError     the user's code fails
├── SweepBusyError     another launch is running this sweep
├── ServerError        a fork server died
│   └── PythonError    another environment's would not start
├── UnfinishedError    what the launch needs to go on is gone
├── WebhookError       news could not be delivered
├── ReproError         torch alone cannot reproduce a case or a trial
└── OutputError        a file that the user named cannot be written
"""

import errno

from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.cluster.errors import ClusterError, LocalRayError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.workloads.errors import UserCodeError, WorkloadError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class OrchestratorError(Exception):
    """Shown by the command line without a traceback."""

    exit_code = ExitCode.USAGE


class SpecError(OrchestratorError):
    """Says what was asked for, and what is allowed."""


class NeedsGpuError(SpecError):
    """Names what needs a GPU."""

    exit_code = ExitCode.NEEDS_GPU


class ModelError(SpecError):
    """Says how the user's code fails."""

    exit_code = ExitCode.DOES_NOT_RUN


class SweepBusyError(OrchestratorError):
    """Names the launch that holds the sweep."""

    exit_code = ExitCode.UNFINISHED


class ServerError(OrchestratorError):
    """Carries the server's own last output."""

    exit_code = ExitCode.UNFINISHED


class PythonError(ServerError):
    """Names the Python."""

    exit_code = ExitCode.USAGE


class UnfinishedError(OrchestratorError):
    """Something that the launch needs is gone."""

    exit_code = ExitCode.UNFINISHED


class WebhookError(OrchestratorError):
    """Names the host; the rest of the URL is a secret."""


class ReproError(OrchestratorError):
    """Names the case or the trial, and why a script of torch alone cannot reproduce it."""


class OutputError(OrchestratorError):
    """Names the file."""


MISTAKES = (AnalysisError, ClusterError, OrchestratorError, WorkloadError)


def exit_code_of(error: Exception) -> ExitCode:
    """The exit code of a command that this ends."""
    cause = error.__cause__ or error
    if isinstance(cause, OSError) and cause.errno in DISK_FULL:
        return ExitCode.UNFINISHED
    if isinstance(error, OrchestratorError):
        return error.exit_code
    others = {LocalRayError: ExitCode.UNFINISHED, UserCodeError: ExitCode.DOES_NOT_RUN}
    return others.get(type(error), ExitCode.USAGE)
