"""Writes a report as HTML, JSON or Markdown. The HTML page is one file that needs no network.

Users choose names in the data, so names must not become markup or code. The page has its data in
one block of escaped JSON, and its content security policy allows only its own two scripts."""

import base64
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import cache
from importlib.metadata import version
from itertools import compress, count
from math import isclose
from pathlib import Path
from string import Template
from tempfile import NamedTemporaryFile
from typing import Any

import pyarrow as pa

from cudnn_sweep.analysis.engine.declared import declared
from cudnn_sweep.analysis.engine.formats import escaped_line, to_markdown
from cudnn_sweep.analysis.errors import ReportError
from cudnn_sweep.analysis.report import figures as of_charts
from cudnn_sweep.analysis.report.figures.figure import VERDICT_TEXTS, Figure
from cudnn_sweep.analysis.report.figures.palette import css
from cudnn_sweep.analysis.report.pages.formats import text_of
from cudnn_sweep.analysis.report.payload import ComparedWords, Payload
from cudnn_sweep.analysis.report.sheets import SHOWN, Row, Scalar, Sheet

MISSING_EXTRA = (
    "charts need the package vl_convert, which is not installed; run "
    "pip install 'cudnn-sweep[report]', or use --format markdown or json"
)
LARGE = ("cells", "verdicts")  # large tables, of which the page gets only the columns that it uses
SCRIPTS = ("pieces.js", "effects.js", "jobs.js", "report.js")
FIRST_SENTENCES = 3  # sentences above the table
EMBED = "window.vegaEmbed = vegaEmbed;"  # the function that pieces.js calls
# Characters of JSON that could end a block of HTML or a line of a script.
ENDING = re.compile("[<>&\u2028\u2029]")


def as_html(payload: Payload) -> str:
    """Return the HTML page. Raise ReportError if the extra `report` is not installed."""
    libraries, script = _libraries(), "\n".join(map(text_of, SCRIPTS))
    shown = [{"field": field, "title": title} for field, title in SHOWN.items()]
    drawn = figures()
    jobs = payload.tables["jobs"]
    sheets = {**payload.tables, "jobs": replace(jobs, answered=[*map(_shortened, jobs.answered)])}
    more = {"shown": shown, "figures": drawn, "verdicts": VERDICT_TEXTS}
    named = set(re.findall(r"\w+", script + json.dumps([more, payload.axes], default=_fields)))
    del sheets["paybacks"]  # only the JSON report contains this table
    tables = {
        name: _by_column(
            sheet, [column for column in sheet.columns if name not in LARGE or column in named]
        )
        for name, sheet in sheets.items()
    }
    return Template(text_of("template.html")).substitute(
        policy=_policy(libraries, script),
        style=css() + text_of("report.css"),
        data=escaped_json(_fields(payload) | more | {"tables": tables}),
        libraries=libraries,
        script=script,
    )


def _by_column(sheet: Sheet, columns: Sequence[str]) -> dict[str, object]:
    """Return the distinct values of each column, and for each row an index into them."""
    packed = [_each_once(sheet.column(name)) for name in columns]
    values, places = zip(*packed, strict=True) if packed else ((), ())
    rows = len(sheet.answered)
    return {"columns": columns, "rows": rows, "values": values, "places": places}


def _each_once(values: Sequence[Scalar]) -> tuple[Sequence[Scalar], list[int] | None]:
    """Return distinct values and each row's index, or all values and None if most differ."""
    distinct = dict.fromkeys(values)
    if 2 * len(distinct) > len(values):
        return values, None
    places = dict(zip(distinct, count(), strict=False))
    return [*distinct], [*map(places.__getitem__, values)] if len(distinct) > 1 else None


def _shortened(job: Row) -> Row:
    """Shorten a job. If times are on a straight line, keep only the first and the last."""
    steps = [*map(float, job["steps"].split())]
    ends = {}
    for name in ("baseline_s", "candidate_s"):
        times = [*map(float, job[name].split())]
        slope = (times[-1] - times[0]) / (steps[-1] - steps[0] or 1)
        line = [times[0] + slope * (step - steps[0]) for step in steps]
        pairs = zip(line, times, strict=True)
        if steps[2:] and all(isclose(*pair, rel_tol=1e-5) for pair in pairs):
            ends[name] = f"{times[0]:g} {times[-1]:g}"
    return job | ends


def figures() -> list[Figure]:
    return sorted(declared(of_charts, Figure), key=lambda figure: figure.place)


def as_json(payload: Payload) -> str:
    return _dumped(payload, indent=1) + "\n"


def escaped_json(data: object) -> str:
    """Return JSON that is safe in a script block of HTML."""
    text = _dumped(data, separators=(",", ":"))
    return ENDING.sub(lambda char: f"\\u{ord(char[0]):04x}", text)


def _dumped(data: object, **looks: Any) -> str:
    return json.dumps(data, default=_fields, ensure_ascii=False, allow_nan=False, **looks)


def _fields(value: Any) -> dict[str, object]:
    """Return the fields of a dataclass without copying their values."""
    if isinstance(value, Sheet):
        return {"columns": value.columns, "rows": value.rows}
    return {field.name: getattr(value, field.name) for field in fields(value)}


@cache
def _libraries() -> str:
    try:
        import vl_convert
    except ModuleNotFoundError as error:
        raise ReportError(MISSING_EXTRA) from error
    packed = f"{version('vl-convert-python')} {EMBED}"
    # bundling takes 3.5 s, so its result is cached
    return kept("charts.js", packed, lambda: vl_convert.javascript_bundle(EMBED))


def kept(name: str, version: str, make: Callable[[], str]) -> str:
    """Return the cached text. If it is missing, outdated or unsafe, cache the result of `make`."""
    with suppress(OSError, ValueError, RuntimeError):
        return _read(_folder() / name, version)
    text = make()
    with suppress(OSError, RuntimeError):
        _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=_folder()) as file:
            file.write(f"{_digest(version, text)}\n{text}".encode())
            file.flush()
            os.replace(file.name, _folder() / name)  # closing then finds no file, which is ignored
    return text


def _folder() -> Path:
    """Return the cache folder. Raise RuntimeError if the user has no home folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cudnn-sweep"


def _digest(version: str, text: str) -> str:
    return hashlib.sha256(f"{version}\n{text}".encode()).hexdigest()


def _read(path: Path, version: str) -> str:
    """Return the file's text. Raise OSError or ValueError if the text cannot be trusted."""
    # with O_NONBLOCK, a pipe is read as empty
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        digest, text = file.read().decode().split("\n", 1)
    if status.st_uid != os.getuid() or status.st_mode & 0o022 or digest != _digest(version, text):
        raise ValueError(path)
    return text


def _policy(*scripts: str) -> str:
    """Return a content security policy that allows these scripts, and the styles that Vega sets."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:"


def as_markdown(payload: Payload) -> str:
    first = map(escaped_line, [" · ".join(payload.common), payload.nothing or ""])
    parts = ["# cuDNN sweep report", *first]
    for number, contrast in enumerate(payload.contrasts):
        parts += _contrast(payload.tables["verdicts"], number, contrast)
    if payload.left_out:
        parts += ["## What was left out", _listed(payload.left_out)]
    if payload.warnings:
        parts += ["## Warnings", _listed(payload.warnings)]
    environments = payload.tables["environments"]
    if environments.columns:
        columns = {name: environments.column(name) for name in environments.columns}
        parts += ["## Environment", escaped_line(payload.cost), _table(columns)]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _contrast(verdicts: Sheet, number: int, contrast: ComparedWords) -> list[str]:
    first, more = contrast.sentences[:FIRST_SENTENCES], contrast.sentences[FIRST_SENTENCES:]
    is_mine = [each == number for each in verdicts.column("contrast")]
    mine = {column: [*compress(verdicts.column(column), is_mine)] for column in SHOWN}
    return [
        f"## {escaped_line(contrast.name)}",
        *map(escaped_line, [contrast.headline, *first]),
        _table({SHOWN[column]: values for column, values in mine.items()}),
        _listed([*more, *contrast.left_out]),
    ]


def _table(columns: Mapping[str, Sequence[Scalar]]) -> str:
    known = {title: values for title, values in columns.items() if {*values} - {None}}
    return to_markdown(pa.table(known))


def _listed(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {escaped_line(sentence)}" for sentence in sentences)
