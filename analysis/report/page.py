"""The report as one HTML file that needs no network.

Names come from users, so nothing of theirs is ever markup: all data lies in one block of escaped
JSON, the script writes it as text, and a content security policy lets no script run but the two
that are known by their hash.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from string import Template

import vl_convert

from cudnn_sweep.analysis.report.figures.every import figures
from cudnn_sweep.analysis.report.figures.figure import Figure
from cudnn_sweep.analysis.report.figures.palette import DARK, LIGHT, PAGE, css
from cudnn_sweep.analysis.report.payload import Payload

EMBED = "window.vegaEmbed = vegaEmbed;"  # what report.js needs of the bundle
# JSON that no parser of HTML takes for the end of its block, nor one of scripts for a line's end.
ESCAPES = {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def to_html(payload: Payload) -> str:
    libraries = _libraries()
    script, style = _file("report.js"), _colours() + _file("report.css")
    data = payload.as_json() | {
        "figures": [_figure(each) for each in figures(PAGE, payload.min_effect)]
    }
    return Template(_file("template.html")).substitute(
        policy=_policy(libraries, script),
        style=style,
        data=escaped_json(data),
        libraries=libraries,
        script=script,
    )


def escaped_json(data: object) -> str:
    """Compact JSON that may stand within a script block."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, escape in ESCAPES.items():
        text = text.replace(character, escape)
    return text


@cache
def _libraries() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script; making it takes a second."""
    return vl_convert.javascript_bundle(EMBED)


def _file(name: str) -> str:
    return files("cudnn_sweep.analysis.report").joinpath(name).read_text()


def _colours() -> str:
    dark = f"@media (prefers-color-scheme: dark) {{ :root {{ {css(DARK)} }} }}"
    return f":root {{ {css(LIGHT)} }}\n{dark}\n@media print {{ :root {{ {css(LIGHT)} }} }}\n"


def _policy(*scripts: str) -> str:
    """Vega sets style attributes as it draws, hence 'unsafe-inline' for styles. It runs without eval:
    report.js has it interpret its expressions.
    """
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:"


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _figure(figure: Figure) -> Mapping[str, object]:
    drawings = {layout: drawing.to_dict() for layout, drawing in figure.drawings.items()}
    shown = ("name", "title", "about", "empty", "table", "needs", "rows", "dense_rows", "half")
    return {name: getattr(figure, name) for name in shown} | {
        "only": dict(figure.only),
        "columns": [asdict(column) for column in figure.columns],
        "drawings": drawings,
    }
