"""What shows a report's charts: the page, one HTML file; and each as PNG and SVG, in the light theme."""

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path

import vl_convert

from cudnn_sweep.analysis.asking.declared import declared
from cudnn_sweep.analysis.report import figures as of_charts
from cudnn_sweep.analysis.report.figures.figure import LABELLED_ROWS, Chart, Figure
from cudnn_sweep.analysis.report.figures.palette import LIGHT, PAGE, Palette
from cudnn_sweep.analysis.report.payload import Payload
from cudnn_sweep.analysis.report.sheets import SHOWN, Scalar, Sheet
from cudnn_sweep.analysis.report.single_file import single_file

WIDTH_PX = 760
SCALE = 2  # PNG's pixels for each of the chart's
Rows = list[dict[str, Scalar]]


def export(payload: Payload, folder: Path) -> list[Path]:
    """Write what the first contrast has to show; returns the files. OSError where it cannot."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for figure in figures(LIGHT, payload.min_effect):
        rows = drawn_rows(payload, figure)
        if not rows:
            continue
        spec = _spec(figure, rows)
        svg, png = folder / f"{figure.name}.svg", folder / f"{figure.name}.png"
        svg.write_text(vl_convert.vegalite_to_svg(spec))
        png.write_bytes(vl_convert.vegalite_to_png(spec, scale=SCALE))
        written += [svg, png]
    return written


def drawn_rows(payload: Payload, figure: Figure) -> Rows:
    """As the page chooses them before anything is filtered."""
    cells = _objects(payload.tables["cells"])
    rows = [
        (cells[cell] if isinstance(cell := row.get("cell"), int) else {}) | row
        for row in _objects(payload.tables[figure.table])
        if row.get("contrast", 0) == 0
    ]
    drawn = [
        row
        for row in rows
        if all(row[name] is not None for name in figure.needs)
        and all(row[name] == value for name, value in figure.only.items())
    ]
    compared = {row[figure.compares] for row in drawn} if figure.compares else set()
    return [] if len(compared) == 1 else drawn


def _objects(sheet: Sheet) -> Rows:
    return [dict(zip(sheet.columns, row, strict=True)) for row in sheet.rows]


def _spec(figure: Figure, rows: Rows) -> str:
    names = {row.get("label") for row in rows}
    dense = "dense" in figure.drawings and len(names) > LABELLED_ROWS
    spec = figure.drawings["dense" if dense else "wide"].to_dict()
    datasets = spec.get("datasets", {}) | {"rows": rows}
    size = {"width": WIDTH_PX, "background": LIGHT.paper}
    return json.dumps(spec | {"datasets": datasets} | size)


def to_html(payload: Payload) -> str:
    shown = [{"field": field, "title": title} for field, title in SHOWN.items()]
    data = payload.as_json() | {"shown": shown, "figures": _drawn(payload.min_effect)}
    return single_file("report/template.html", script="report/report.js", data=data)


@cache
def _drawn(min_effect: float) -> list[Mapping[str, object]]:
    """The same for all reports, and most of the time that one takes."""
    return [_figure(each) for each in figures(PAGE, min_effect)]


def _figure(figure: Figure) -> Mapping[str, object]:
    drawings = {
        layout: drawing.to_dict(validate=False) for layout, drawing in figure.drawings.items()
    }
    values = {field.name: getattr(figure, field.name) for field in fields(figure)}
    return values | {"only": dict(figure.only), "drawings": drawings}


def figures(palette: Palette, min_effect: float) -> list[Figure]:
    charts = sorted(declared(of_charts, Chart), key=lambda chart: chart.place)
    return [chart.make(palette, min_effect) for chart in charts]
