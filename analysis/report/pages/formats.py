"""Writes the paragraphs of a page as Markdown, JSON or HTML."""

import json
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from string import Template
from urllib.parse import quote

from cudnn_sweep.analysis.engine.formats import escaped_line, readable
from cudnn_sweep.analysis.report.figures.palette import css
from cudnn_sweep.analysis.report.pages.page import Entry, Row, Shown

URL = ":/?#=&%+,;@"  # characters of an address that are not escaped


def as_html(shown: Shown) -> str:
    groups = {group: shown.of(group) for group, count in shown.counts().items() if count}
    roles = shown.page.groups
    tiles = [
        f'<li class="tile {roles[group]}"><strong>{len(entries)}</strong> '
        f'<a href="#{_anchor(group)}">{escape(group)}</a></li>'
        for group, entries in groups.items()
    ]
    sections = [
        f'<section id="{_anchor(group)}"><h2>{escape(group.capitalize())} '
        f'<span class="quiet">({len(entries)})</span></h2>\n'
        + "\n".join(_article(entry, roles[group]) for entry in entries)
        + "\n</section>"
        for group, entries in groups.items()
    ]
    return document(
        title=escape(shown.page.title),
        measured=escape("; ".join(shown.measured)),
        headline=escape(shown.headline()),
        about=escape(shown.page.about),
        tiles="\n".join(tiles),
        sections="\n".join(sections),
        location=escape(shown.location),
    )


def document(**parts: str) -> str:
    """Return an HTML page without scripts. `parts` are HTML for the template."""
    looks = "\n".join(map(text_of, ("report.css", "pages/page.css")))
    return Template(text_of("pages/page.html")).substitute(parts, style=css() + looks)


def text_of(name: str) -> str:
    return files("cudnn_sweep.analysis.report").joinpath(name).read_text(encoding="utf-8")


def _anchor(group: str) -> str:
    return group.replace(" ", "-")


def _article(entry: Entry, role: str) -> str:
    name = escape(entry.name)
    if entry.address:
        name = f'<a href="{escape(entry.address)}" rel="noreferrer">{name}</a>'
    terms = [f"<dt>{escape(fact)}</dt><dd>{escape(text)}</dd>" for fact, text in _facts(entry)]
    if entry.command:
        terms.append(f"<dt>see it</dt><dd><code>{escape(entry.command)}</code></dd>")
    unfolded, folded = map("".join, _parted(terms, entry.unfolded))
    more = f"<details><summary>more</summary><dl>{folded}</dl></details>" if folded else ""
    return (
        f'<article class="{role}"><h3>{name} <span>{escape(entry.said)}</span></h3>\n'
        f"<dl>{unfolded}</dl>{more}{_table(entry.figures)}</article>"
    )


def _parted(lines: list[str], unfolded: int | None) -> tuple[list[str], list[str]]:
    count = len(lines) if unfolded is None else unfolded
    return lines[:count], lines[count:]


def _facts(entry: Entry) -> list[tuple[str, str]]:
    return [(name, text) for name, text in entry.facts.items() if text]


def _table(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in rows[0])
    body = "\n".join(f"<tr>{''.join(map(_cell, row.values()))}</tr>" for row in rows)
    return (
        f'<details><summary>{len(rows)} figures</summary><div class="scrolls">'
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div></details>"
    )


def _cell(value: object) -> str:
    number = ' class="number"' if isinstance(value, int | float) else ""
    return f"<td{number}>{escape(readable(value))}</td>"


def as_markdown(shown: Shown) -> str:
    parts = [
        f"# {shown.page.title}",
        *map(escaped_line, [*shown.measured, shown.headline()]),
        shown.page.about,
    ]
    for group, count in shown.counts().items():
        if count:
            lines = (line for entry in shown.of(group) for line in _lines(entry))
            parts += [f"## {group.capitalize()}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _lines(entry: Entry) -> Iterator[str]:
    name = f"[{entry.name}]({quote(entry.address, URL)})" if entry.address else entry.name
    yield f"- {name}: {escaped_line(entry.said)}"
    lines = [f"  - {name}: {escaped_line(text)}" for name, text in _facts(entry)]
    unfolded, folded = _parted(lines, entry.unfolded)
    yield from unfolded
    if folded:
        yield from ("", "  <details><summary>more</summary>", "", *folded, "", "  </details>", "")


def as_json(shown: Shown) -> str:
    entries = [
        {"name": entry.name, "said": entry.said, "group": entry.group, "facts": dict(_facts(entry))}
        for entry in shown.entries
    ]
    content = {"page": shown.page.name, "counts": shown.counts(), "entries": entries}
    content["rows"] = shown.rows
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
