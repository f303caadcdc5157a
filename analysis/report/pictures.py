"""What shows a report's charts: the page, one HTML file; and each as PNG and SVG, in the light theme."""

import json
from dataclasses import fields
from pathlib import Path

import vl_convert

from cudnn_sweep.analysis.asking.declared import declared
from cudnn_sweep.analysis.report import figures as of_charts
from cudnn_sweep.analysis.report.figures.figure import LABELLED_ROWS, Figure
from cudnn_sweep.analysis.report.figures.palette import LIGHT, in_colours
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
    for figure in figures():
        rows = drawn_rows(payload, figure)
        if not rows:
            continue
        spec = _spec(figure, rows, payload.min_effect)
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


def _spec(figure: Figure, rows: Rows, min_effect: float) -> str:
    names = {row.get("label") for row in rows}
    dense = "dense" in figure.drawings and len(names) > LABELLED_ROWS
    drawn = json.loads(in_colours(json.dumps(figure.drawings["dense" if dense else "wide"]), LIGHT))
    known = {
        "params": [{"name": "min_effect", "value": min_effect}],
        "datasets": {"rows": rows},
        "width": WIDTH_PX,
        "background": LIGHT["paper"],
    }
    return json.dumps(drawn | known)


def to_html(payload: Payload) -> str:
    shown = [{"field": field, "title": title} for field, title in SHOWN.items()]
    drawn = [
        {field.name: getattr(figure, field.name) for field in fields(figure)}
        for figure in figures()
    ]
    data = payload.as_json() | {"shown": shown, "figures": drawn}
    return single_file("report/template.html", script="report/report.js", data=data)


def figures() -> list[Figure]:
    return sorted(declared(of_charts, Figure), key=lambda figure: figure.place)
