"""Errors that the command line prints without a traceback, and their exit codes."""

import errno

from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.cluster.errors import ClusterError, LocalRayError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.workloads.errors import UserCodeError, WorkloadError


class OrchestratorError(Exception):
    exit_code = ExitCode.USAGE


class SpecError(OrchestratorError):
    """A mistake in a request. The message shows what was found and what is allowed."""


class NeedsGpuError(SpecError):
    exit_code = ExitCode.NEEDS_GPU


class ModelError(SpecError):
    exit_code = ExitCode.DOES_NOT_RUN


class SweepBusyError(OrchestratorError):
    """Another process uses the sweep or the device."""

    exit_code = ExitCode.UNFINISHED


class ServerError(OrchestratorError):
    """A fork server died, refused a request, or found the wrong GPU."""

    exit_code = ExitCode.UNFINISHED


class PythonError(ServerError):
    """The Python of another environment cannot start a fork server."""

    exit_code = ExitCode.USAGE


class UnfinishedError(OrchestratorError):
    """A launch stopped early or lost trials. The same command resumes it."""

    exit_code = ExitCode.UNFINISHED


class WebhookError(OrchestratorError):
    """A message could not be posted to a webhook. The text has no secret part of the URL."""


class OutputError(OrchestratorError):
    """A file cannot be written."""


MISTAKES = (AnalysisError, ClusterError, OrchestratorError, WorkloadError)


def exit_code_of(error: Exception) -> ExitCode:
    cause = error.__cause__ or error
    if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
        return ExitCode.UNFINISHED
    if isinstance(error, OrchestratorError):
        return error.exit_code
    others = {LocalRayError: ExitCode.UNFINISHED, UserCodeError: ExitCode.DOES_NOT_RUN}
    return others.get(type(error), ExitCode.USAGE)
