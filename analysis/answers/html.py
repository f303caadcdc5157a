"""Writes an answer as one HTML file without scripts."""

import re
from collections.abc import Sequence
from html import escape

from cudnn_sweep.analysis.answers.answer import Answer, AnswerFormat, Section, Verbatim
from cudnn_sweep.analysis.words import one_line


def to_html(answer: Answer) -> str:
    from cudnn_sweep.analysis.report.pages.formats import document  # also imports DuckDB

    paste = [f"<pre>{escape(line)}</pre>" for line in answer.paste]
    typed = [f"<p>{inline(what)}: {inline(Verbatim(text))}</p>" for what, text in answer.commands]
    return document(
        title=f"sweep {answer.kind}",
        measured=inline(answer.subject),
        headline=inline(answer.headline),
        about="",
        tiles="\n".join(_tile(section) for section in answer.sections if section.role),
        sections="\n".join([*paste, *map(_section, answer.sections), *typed]),
        location=f"sweep {answer.kind}",
    )


def inline(text: str) -> str:
    safe = escape(one_line(text))
    return f"<code>{safe}</code>" if isinstance(text, Verbatim) else safe


def _tile(section: Section) -> str:
    link = f'<a href="#{_anchor(section)}">{section.title.lower()}</a>'
    return f'<li class="tile {section.role}"><strong>{len(section.items)}</strong> {link}</li>'


def _section(section: Section) -> str:
    rows = [
        f"<tr>{''.join(f'<td>{inline(cell)}</td>' for cell in row)}</tr>" for row in section.rows
    ]
    head = "".join(f"<th>{inline(title)}</th>" for title in section.head)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    parts = [
        *(_item(item, section.role) for item in section.items),
        *(f"<p>{' '.join(map(inline, note))}</p>" for note in section.notes),
        f'<div class="scrolls">{table}</div>' if rows else "",
    ]
    if not section.title:
        return f"<section>{''.join(parts)}</section>"
    title = f"<h2>{inline(section.title)}</h2>"
    return f'<section id="{_anchor(section)}">{title}{"".join(parts)}</section>'


def _item(item: Sequence[str], role: str) -> str:
    first, *lines = map(inline, item)
    listed = f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>" if lines else ""
    return f'<article class="{role}"><h3>{first}</h3>{listed}</article>'


def _anchor(section: Section) -> str:
    return re.sub(r"\W+", "-", section.title.lower())


FORMAT = AnswerFormat(suffix=".html", render=to_html)
