"""Errors that are no fault of ours, with their exit codes. The command line prints them without a
traceback, as it does WorkloadError, ClusterError and AnalysisError of the other folders.
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
    """Names a request that cannot be planned, and what is allowed."""


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
    """Carries the last output of a fork server that died."""

    exit_code = ExitCode.UNFINISHED


class PythonError(ServerError):
    """Names the Python of another environment, whose fork server does not start."""

    exit_code = ExitCode.USAGE


class UnfinishedError(OrchestratorError):
    """Says what a launch needed and lost; the same command resumes it."""

    exit_code = ExitCode.UNFINISHED


class WebhookError(OrchestratorError):
    """Names the host that refuses a message; the rest of the URL is a secret."""


class ReproError(OrchestratorError):
    """Names the case or the trial, and why a script of torch alone cannot reproduce it."""


class OutputError(OrchestratorError):
    """Names the file that cannot be written."""


MISTAKES = (AnalysisError, ClusterError, OrchestratorError, WorkloadError)


def exit_code_of(error: Exception) -> ExitCode:
    """Return the exit code of a command that ends with this error."""
    cause = error.__cause__ or error
    if isinstance(cause, OSError) and cause.errno in DISK_FULL:
        return ExitCode.UNFINISHED
    if isinstance(error, OrchestratorError):
        return error.exit_code
    others = {LocalRayError: ExitCode.UNFINISHED, UserCodeError: ExitCode.DOES_NOT_RUN}
    return others.get(type(error), ExitCode.USAGE)
