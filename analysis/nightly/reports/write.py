"""Every report of a night, as files in one folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cudnn_sweep.analysis.errors import ReportError
from cudnn_sweep.analysis.nightly.outcome import NightOutcome, Series
from cudnn_sweep.analysis.nightly.reports.as_json import to_json
from cudnn_sweep.analysis.nightly.reports.junit import to_junit
from cudnn_sweep.analysis.nightly.reports.markdown import to_markdown

CHARTS = ("altair", "vl_convert")  # the extra `report`


@dataclass(frozen=True, kw_only=True, slots=True)
class Reports:
    """Where each of them lies."""

    markdown: Path
    json: Path
    junit: Path
    page: Path | None
    """HTML; None where the extra `report` is not installed."""


def write_reports(
    outcome: NightOutcome,
    series: Sequence[Series],
    folder: Path,
    *,
    step_summary: Path | None = None,
) -> Reports:
    """Write them; the Markdown is also added to `step_summary`, a file that a CI step shows.

    Raises ReportError where a file cannot be written.
    """
    page = _page(outcome, series)
    reports = Reports(
        markdown=folder / "night.md",
        json=folder / "night.json",
        junit=folder / "junit.xml",
        page=folder / "night.html" if page else None,
    )
    markdown = to_markdown(outcome)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reports.markdown.write_text(markdown, encoding="utf-8")
        reports.json.write_text(to_json(outcome), encoding="utf-8")
        reports.junit.write_text(to_junit(outcome, series), encoding="utf-8")
        if reports.page and page:
            reports.page.write_text(page, encoding="utf-8")
        if step_summary:
            with step_summary.open("a", encoding="utf-8") as file:
                file.write(markdown)
    except OSError as error:
        raise ReportError(f"cannot write {error.filename}: {error.strerror}") from error
    return reports


def _page(outcome: NightOutcome, series: Sequence[Series]) -> str | None:
    try:
        from cudnn_sweep.analysis.nightly.reports.page import to_html
    except ModuleNotFoundError as error:
        if error.name in CHARTS:
            return None
        raise
    return to_html(outcome, series)
