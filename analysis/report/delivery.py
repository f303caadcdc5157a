"""A report in the format asked for. As Markdown, for terminals and pull requests, it has its words and tables."""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from cudnn_sweep.analysis.asking.formats import escaped_line, to_markdown
from cudnn_sweep.analysis.errors import ReportError
from cudnn_sweep.analysis.report.payload import ComparedWords, Payload
from cudnn_sweep.analysis.report.sheets import SHOWN, Sheet

MISSING_EXTRA = (
    "charts need packages that are not installed; install them by pip install 'cudnn-sweep[report]', "
    "or ask for --format markdown or json without --charts"
)
FIRST_SENTENCES = 3  # above the table


def as_html(payload: Payload) -> str:
    """ReportError where the extra `report` is not installed."""
    try:
        from cudnn_sweep.analysis.report.pictures import to_html
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    return to_html(payload)


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


def as_markdown(payload: Payload) -> str:
    parts = [
        "# cuDNN sweep report",
        escaped_line(" · ".join(payload.common)),
        escaped_line(payload.nothing or ""),
    ]
    for number, contrast in enumerate(payload.contrasts):
        parts += _contrast(payload.tables["verdicts"], number, contrast)
    if payload.left_out:
        parts += ["## What was left out", _listed(payload.left_out)]
    if payload.warnings:
        parts += ["## Warnings", _listed(payload.warnings)]
    environments = payload.tables["environments"]
    if environments.rows:
        titles = {name: name for name in environments.columns}
        parts += ["## Environment", escaped_line(payload.cost), _table(environments, titles)]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _contrast(verdicts: Sheet, number: int, contrast: ComparedWords) -> list[str]:
    place = verdicts.columns.index("contrast")
    mine = [row for row in verdicts.rows if row[place] == number]
    table = _table(Sheet(columns=verdicts.columns, rows=mine), SHOWN)
    first, more = contrast.sentences[:FIRST_SENTENCES], contrast.sentences[FIRST_SENTENCES:]
    return [
        f"## {escaped_line(contrast.name)}",
        *map(escaped_line, [contrast.headline, *first]),
        table,
        _listed([*more, *contrast.left_out]),
    ]


def _table(sheet: Sheet, titles: dict[str, str]) -> str:
    columns = {
        title: [row[sheet.columns.index(name)] for row in sheet.rows]
        for name, title in titles.items()
    }
    kept = {
        title: values for title, values in columns.items() if any(v is not None for v in values)
    }
    return to_markdown(pa.table(kept))


def _listed(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {escaped_line(sentence)}" for sentence in sentences)
