"""A report in the format asked for: the page, one HTML file that needs no network; JSON; or Markdown, for terminals
and pull requests, which has its words and tables.

Names come from users, so nothing of theirs is ever markup: all data of the page lies in one block of escaped
JSON, the script writes it as text, and a content security policy lets no script run but the two
that are known by their hash.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

import pyarrow as pa

from cudnn_sweep.analysis.asking.declared import declared
from cudnn_sweep.analysis.asking.formats import escaped_line, to_markdown
from cudnn_sweep.analysis.errors import ReportError
from cudnn_sweep.analysis.report import figures as of_charts
from cudnn_sweep.analysis.report.figures.figure import VERDICT_TEXTS, Figure
from cudnn_sweep.analysis.report.figures.palette import css
from cudnn_sweep.analysis.report.payload import ComparedWords, Payload
from cudnn_sweep.analysis.report.sheets import SHOWN, Scalar, Sheet

MISSING_EXTRA = (
    "vl_convert is missing: charts need packages that are not installed; install them by "
    "pip install 'cudnn-sweep[report]', or ask for --format markdown or json"
)
FIRST_SENTENCES = 3  # above the table
EMBED = "window.vegaEmbed = vegaEmbed;"  # what pieces.js needs of the bundle
# JSON that no parser of HTML takes for the end of its block, nor one of scripts for a line's end.
ESCAPES = str.maketrans({each: f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"})


def as_html(payload: Payload) -> str:
    """ReportError where the extra `report` is not installed."""
    libraries, script = _libraries(), "\n".join(map(_text, ("pieces.js", "report.js")))
    shown = [{"field": field, "title": title} for field, title in SHOWN.items()]
    more = {"shown": shown, "figures": figures(), "verdicts": VERDICT_TEXTS}
    return Template(_text("template.html")).substitute(
        policy=_policy(libraries, script),
        style=css() + _text("report.css"),
        data=escaped_json(_fields(payload) | more | _texts_once(payload.tables)),
        libraries=libraries,
        script=script,
    )


def _texts_once(tables: Mapping[str, Sheet]) -> dict[str, object]:
    """Return the tables with each text as [its number in `texts`]: the same few stand in thousands of rows."""
    numbers: dict[str, int] = {}

    def numbered(value: Scalar) -> object:
        return [numbers.setdefault(value, len(numbers))] if isinstance(value, str) else value

    short = {
        name: {"columns": sheet.columns, "rows": [[*map(numbered, row)] for row in sheet.rows]}
        for name, sheet in tables.items()
    }
    return {"tables": short, "texts": [*numbers]}


def figures() -> list[Figure]:
    return sorted(declared(of_charts, Figure), key=lambda figure: figure.place)


def as_json(payload: Payload) -> str:
    text = json.dumps(payload, default=_fields, ensure_ascii=False, allow_nan=False, indent=1)
    return f"{text}\n"


def escaped_json(data: object) -> str:
    """Compact JSON that may stand within a script block."""
    text = json.dumps(
        data, default=_fields, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    return text.translate(ESCAPES)


def _fields(value: Any) -> dict[str, object]:
    """Of a dataclass, as they are: `asdict` would copy every number of every table."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


@cache
def _libraries() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script."""
    try:
        import vl_convert
    except ModuleNotFoundError as error:
        raise ReportError(MISSING_EXTRA) from error
    return vl_convert.javascript_bundle(EMBED)


def _text(name: str) -> str:
    return files("cudnn_sweep.analysis.report").joinpath(name).read_text(encoding="utf-8")


def _policy(*scripts: str) -> str:
    """Vega sets style attributes as it draws, hence 'unsafe-inline' for styles. It runs without eval:
    pieces.js has it interpret its expressions.
    """
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(each).decode()}'" for each in digests)
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:"


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
    first, more = contrast.sentences[:FIRST_SENTENCES], contrast.sentences[FIRST_SENTENCES:]
    return [
        f"## {escaped_line(contrast.name)}",
        *map(escaped_line, [contrast.headline, *first]),
        _table(Sheet(columns=verdicts.columns, rows=mine), SHOWN),
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
