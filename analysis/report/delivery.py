"""A report in the format asked for."""

import json
from pathlib import Path

from cudnn_sweep.analysis.errors import ReportError
from cudnn_sweep.analysis.report import markdown
from cudnn_sweep.analysis.report.payload import Payload

MISSING_EXTRA = (
    "charts need packages that are not installed; install them by pip install 'cudnn-sweep[report]', "
    "or ask for --format markdown or json without --charts"
)


def as_html(payload: Payload) -> str:
    """ReportError where the extra `report` is not installed."""
    try:
        from cudnn_sweep.analysis.report.page import to_html
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    return to_html(payload)


def as_markdown(payload: Payload) -> str:
    return markdown.to_text(payload)


def as_json(payload: Payload) -> str:
    return json.dumps(payload.as_json(), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def export_charts(payload: Payload, folder: Path) -> list[Path]:
    """Each chart as PNG and SVG; ReportError where the folder or the extra is not to be had."""
    try:
        from cudnn_sweep.analysis.report.pictures import export
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    try:
        return export(payload, folder)
    except OSError as error:
        raise ReportError(f"cannot write charts to {folder}: {error.strerror}") from error


def _missing(error: ModuleNotFoundError) -> ReportError:
    return ReportError(f"{error.name} is missing: {MISSING_EXTRA}")
