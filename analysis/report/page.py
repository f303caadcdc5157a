"""The report as one HTML file."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache

from cudnn_sweep.analysis.report.figures.every import figures
from cudnn_sweep.analysis.report.figures.figure import Figure
from cudnn_sweep.analysis.report.figures.palette import PAGE
from cudnn_sweep.analysis.report.payload import Payload
from cudnn_sweep.analysis.report.single_file import single_file


def to_html(payload: Payload) -> str:
    data = payload.as_json() | {"figures": _drawn(payload.min_effect, payload.charts)}
    return single_file("report/template.html", script="report/report.js", data=data)


@cache
def _drawn(min_effect: float, charts: tuple[str, ...]) -> list[Mapping[str, object]]:
    """The same for all reports, and most of the time that one takes."""
    return [_figure(each) for each in figures(PAGE, min_effect, charts)]


def _figure(figure: Figure) -> Mapping[str, object]:
    drawings = {layout: drawing.to_dict() for layout, drawing in figure.drawings.items()}
    shown = ("name", "title", "about", "table", "needs", "compares", "rows", "dense_rows", "half")
    return {name: getattr(figure, name) for name in shown} | {
        "only": dict(figure.only),
        "columns": [asdict(column) for column in figure.columns],
        "drawings": drawings,
    }
