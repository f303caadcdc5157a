"""What goes wrong here through no fault of ours; the command line shows these without a traceback, beside
WorkloadError, ClusterError and AnalysisError of the other folders.

OrchestratorError
├── SpecError          what was asked for cannot be planned or scheduled
├── SweepBusyError     another launch is running this sweep
├── ServerError        a fork server would not start or died
├── UnfinishedError    what the launch needs to go on is gone
├── WebhookError       news could not be delivered
├── ReproError         torch alone cannot reproduce a case or a trial
└── OutputError        a file that the user named cannot be written
"""


class OrchestratorError(Exception):
    """Shown by the command line without a traceback."""


class SpecError(OrchestratorError):
    """Says what was asked for, and what is allowed."""


class SweepBusyError(OrchestratorError):
    """Names the launch that holds the sweep."""


class ServerError(OrchestratorError):
    """Carries the server's own last output."""


class UnfinishedError(OrchestratorError):
    """Something that the launch needs is gone."""


class WebhookError(OrchestratorError):
    """Names the host; the rest of the URL is a secret."""


class ReproError(OrchestratorError):
    """Names the case or the trial, and why a script of torch alone cannot reproduce it."""


class OutputError(OrchestratorError):
    """Names the file."""
