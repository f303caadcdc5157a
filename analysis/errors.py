"""What goes wrong here through no fault of ours; the command line shows these without a traceback.

AnalysisError
├── StoreError        a results location cannot be read or written
│   └── TornFileError a file of the store is no Parquet that can be read
├── QueryError        a question is unknown, not allowed, or failed
└── ReportError       a report cannot be made or written
"""


class AnalysisError(Exception):
    """Base of this folder's errors; the text names the thing, what was found and what is allowed."""


class StoreError(AnalysisError):
    """A results location cannot be read or written."""


class TornFileError(StoreError):
    """A file of the store is half-written or damaged; `Store.set_aside_torn` renames such files."""


class QueryError(AnalysisError):
    """A question is unknown, not allowed, or failed."""


class ReportError(AnalysisError):
    """A report cannot be made or written."""
