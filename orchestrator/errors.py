"""Errors that are no fault of ours, with their exit codes. The command line prints them without a
traceback, like the other folders' WorkloadError, ClusterError and AnalysisError.
"""

import errno

from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.cluster.errors import ClusterError, LocalRayError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.workloads.errors import UserCodeError, WorkloadError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class OrchestratorError(Exception):
    """Base of these errors: the command line prints the text without a traceback."""

    exit_code = ExitCode.USAGE


class SpecError(OrchestratorError):
    """Names a request that cannot be carried out, and what is allowed."""


class NeedsGpuError(SpecError):
    """Names what needs a GPU."""

    exit_code = ExitCode.NEEDS_GPU


class ModelError(SpecError):
    """Says how the user's model fails."""

    exit_code = ExitCode.DOES_NOT_RUN


class SweepBusyError(OrchestratorError):
    """Names the launch or night that holds the sweep or the device."""

    exit_code = ExitCode.UNFINISHED


class ServerError(OrchestratorError):
    """Says why a fork server is of no use: it died, refused a request, or found the wrong GPU."""

    exit_code = ExitCode.UNFINISHED


class PythonError(ServerError):
    """Names another environment's Python that starts no fork server."""

    exit_code = ExitCode.USAGE


class UnfinishedError(OrchestratorError):
    """Says why a launch stopped early or what it lost; the same command resumes the launch."""

    exit_code = ExitCode.UNFINISHED


class WebhookError(OrchestratorError):
    """Names the host of a webhook that did not accept the news; the rest of the URL is secret."""


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
