"""Errors of the user's input or machine; the command line shows them without a traceback."""

from difflib import get_close_matches


class AnalysisError(Exception):
    """Base of analysis errors; a message says what is wrong, what was found and what is allowed."""


class StoreError(AnalysisError):
    """A results location cannot be read or written."""


class TornFileError(StoreError):
    """A file of the store is half-written or damaged; `Store.set_aside_torn` renames such files."""


class QueryError(AnalysisError):
    """A question is unknown or not allowed, or its query failed."""


class ReportError(AnalysisError):
    """A report cannot be made or written."""


def did_you_mean(word: str, allowed: list[str]) -> str:
    """Return ` (did you mean X?)` for the most similar allowed word; empty if none is similar."""
    near = get_close_matches(word, allowed, n=1)
    return f" (did you mean {near[0]}?)" if near else ""
