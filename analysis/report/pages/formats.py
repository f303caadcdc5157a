"""A page as HTML without a script, as Markdown, or as JSON."""

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template
from urllib.parse import quote

from cudnn_sweep.analysis.asking.formats import escaped_line
from cudnn_sweep.analysis.report.figures.palette import css
from cudnn_sweep.analysis.report.pages.page import Entry, Shown, Table

URL = ":/?#=&%+,;@"  # what an address may hold as it is


def as_html(shown: Shown) -> str:
    sections = [_section(shown, group) for group, count in shown.counts().items() if count]
    return document(
        title=escape(shown.page.title),
        measured=escape("; ".join(shown.measured)),
        headline=escape(shown.headline()),
        about=escape(shown.page.about),
        tiles="\n".join(_tile(shown, group, count) for group, count in shown.counts().items()),
        sections="\n".join(sections),
        location=escape(shown.location),
    )


def document(**parts: str) -> str:
    """One file that needs no network and runs no script; `parts` are markup."""
    looks = "\n".join(map(_file, ("report.css", "pages/page.css")))
    return Template(_file("pages/page.html")).substitute(parts, style=css() + looks)


def _file(name: str) -> str:
    return files("cudnn_sweep.analysis.report").joinpath(name).read_text(encoding="utf-8")


def _anchor(group: str) -> str:
    return group.replace(" ", "-")


def _tile(shown: Shown, group: str, count: int) -> str:
    if not count:
        return ""
    role = dict(shown.page.groups)[group]
    link = f'<a href="#{_anchor(group)}">{escape(group)}</a>'
    return f'<li class="tile {role}"><strong>{count}</strong> {link}</li>'


def _section(shown: Shown, group: str) -> str:
    role, entries = dict(shown.page.groups)[group], shown.of(group)
    cases = "\n".join(_article(entry, role) for entry in entries)
    return (
        f'<section id="{_anchor(group)}"><h2>{escape(group.capitalize())} '
        f'<span class="quiet">({len(entries)})</span></h2>\n{cases}\n</section>'
    )


def _article(entry: Entry, role: str) -> str:
    name = escape(entry.name)
    if entry.address:
        name = f'<a href="{escape(entry.address)}" rel="noreferrer">{name}</a>'
    facts = "\n".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in entry.facts.items())
    command = (
        f"<dt>see it</dt><dd><code>{escape(entry.command)}</code></dd>" if entry.command else ""
    )
    return (
        f'<article class="{role}"><h3>{name} <span>{escape(entry.said)}</span></h3>\n'
        f"<dl>{facts}{command}</dl>{_table(entry.table)}</article>"
    )


def _table(table: Table | None) -> str:
    if table is None:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in table.header)
    rows = "\n".join(
        f"<tr>{''.join(_cell(table, place, text) for place, text in enumerate(row))}</tr>"
        for row in table.rows
    )
    return (
        f'<details><summary>{len(table.rows)} figures</summary><div class="scrolls">'
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div></details>"
    )


def _cell(table: Table, place: int, text: str) -> str:
    number = ' class="number"' if place in table.numbers else ""
    return f"<td{number}>{escape(text)}</td>"


def as_markdown(shown: Shown) -> str:
    parts = [
        f"# {shown.page.title}",
        *map(escaped_line, shown.measured),
        escaped_line(shown.headline()),
    ]
    parts.append(shown.page.about)
    for group, count in shown.counts().items():
        if count:
            parts += [f"## {group.capitalize()}", "\n".join(_lines(shown.of(group)))]
    return "\n\n".join(parts) + "\n"


def _lines(entries: Sequence[Entry]) -> list[str]:
    lines = []
    for entry in entries:
        name = f"[{entry.name}]({quote(entry.address, URL)})" if entry.address else entry.name
        lines.append(f"- {name}: {escaped_line(entry.said)}")
        lines += [f"  - {name}: {escaped_line(text)}" for name, text in entry.facts.items()]
    return lines


def as_json(shown: Shown) -> str:
    entries = [
        {"name": each.name, "said": each.said, "group": each.group, "facts": dict(each.facts)}
        for each in shown.entries
    ]
    told = {
        "page": shown.page.name,
        "counts": shown.counts(),
        "entries": entries,
        "rows": shown.rows,
    }
    return json.dumps(told, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
