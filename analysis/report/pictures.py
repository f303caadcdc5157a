"""What shows a report's charts: the page, one HTML file that needs no network; and each chart as PNG and SVG.

Names come from users, so nothing of theirs is ever markup: all data lies in one block of escaped
JSON, the script writes it as text, and a content security policy lets no script run but the two
that are known by their hash.
"""

import base64
import hashlib
import json
import os
from contextlib import suppress
from dataclasses import fields
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template

import vl_convert

from cudnn_sweep.analysis.asking.declared import declared
from cudnn_sweep.analysis.report import figures as of_charts
from cudnn_sweep.analysis.report.figures.figure import LABELLED_ROWS, Figure
from cudnn_sweep.analysis.report.figures.palette import LIGHT, css, css_of_both, in_colours
from cudnn_sweep.analysis.report.payload import Payload
from cudnn_sweep.analysis.report.sheets import SHOWN, Scalar, Sheet

WIDTH_PX = 760
SCALE = 2  # PNG's pixels for each of the chart's
EMBED = "window.vegaEmbed = vegaEmbed;"  # what pieces.js needs of the bundle
# JSON that no parser of HTML takes for the end of its block, nor one of scripts for a line's end.
ESCAPES = {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
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
    libraries, script = _libraries(), "\n".join(map(_text, ("pieces.js", "report.js")))
    printed = f"@media print {{ :root {{ {css(LIGHT)} }} }}\n"
    shown = [{"field": field, "title": title} for field, title in SHOWN.items()]
    drawn = [
        {field.name: getattr(figure, field.name) for field in fields(figure)}
        for figure in figures()
    ]
    return Template(_text("template.html")).substitute(
        policy=_policy(libraries, script),
        style=css_of_both() + printed + _text("report.css"),
        data=escaped_json(payload.as_json() | {"shown": shown, "figures": drawn}),
        libraries=libraries,
        script=script,
    )


def figures() -> list[Figure]:
    return sorted(declared(of_charts, Figure), key=lambda figure: figure.place)


def escaped_json(data: object) -> str:
    """Compact JSON that may stand within a script block."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, escape in ESCAPES.items():
        text = text.replace(character, escape)
    return text


@cache
def _libraries() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script. Making it takes a second, so the user's cache keeps it."""
    name = f".cache/cudnn-sweep/vega-{version('vl-convert-python')}.js"
    with suppress(OSError, RuntimeError):  # a user without a home has no cache
        return (Path.home() / name).read_text(encoding="utf-8")
    made = vl_convert.javascript_bundle(EMBED)
    with suppress(OSError, RuntimeError):
        kept = Path.home() / name
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_text(made, encoding="utf-8")
        part.replace(kept)
    return made


def _text(name: str) -> str:
    return files("cudnn_sweep.analysis.report").joinpath(name).read_text(encoding="utf-8")


def _policy(*scripts: str) -> str:
    """Vega sets style attributes as it draws, hence 'unsafe-inline' for styles. It runs without eval:
    pieces.js has it interpret its expressions.
    """
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:"


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
