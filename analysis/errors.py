"""Errors that the command line prints without a traceback."""

from difflib import get_close_matches


class AnalysisError(Exception):
    """Base class of the errors of this package."""


class StoreError(AnalysisError):
    """Raised if a results location cannot be read or written."""


class TornFileError(StoreError):
    """Raised if a stored file is incomplete or damaged."""


class QueryError(AnalysisError):
    """Raised if a question is unknown or invalid, or if its query fails."""


class ReportError(AnalysisError):
    """Raised if a report cannot be made, read or written."""


def did_you_mean(word: str, allowed: list[str]) -> str:
    """Suggest the allowed word that is most similar to `word`. Return "" if none is similar."""
    near = get_close_matches(word, allowed, n=1)
    return f" (did you mean {near[0]}?)" if near else ""
