"""Writes an answer as Markdown, for the summary of a CI step or for a pull request.

Names that users chose are in code spans. Otherwise a name could become a link or a mention.
"""

import re
from collections.abc import Sequence
from html import escape

from cudnn_sweep.analysis.answers.answer import Answer, AnswerFormat, Section, Verbatim
from cudnn_sweep.analysis.engine.formats import unlinked
from cudnn_sweep.analysis.words import printable


def to_markdown(answer: Answer) -> str:
    rest = [part for section in answer.sections if section.is_rest for part in _section(section)]
    parts = [
        f"## {_inline(answer.headline)}",
        "\n".join(f"    {printable(line)}" for line in answer.paste),
        *(part for section in answer.sections if not section.is_rest for part in _section(section)),
        *(f"{_inline(what)}: {_inline(Verbatim(command))}" for what, command in answer.commands),
        *(["<details><summary>The rest</summary>", *rest, "</details>"] if rest else ()),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _section(section: Section) -> list[str]:
    lines = []
    for first, *more in section.items:
        lines.append(f"- **{_inline(first)}**" if more else f"- {_inline(first)}")
        lines += [f"  - {_inline(line)}" for line in more]
    notes = [" ".join(map(_inline, words)) for words in section.notes]
    table = _table([section.head or ("", ""), *section.rows] if section.rows else ())
    title = f"### {_inline(section.title)}" if section.title else ""
    return [title, "\n".join(lines), *notes, table]


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(map(_in_table, row))} |" for row in rows]
    return "\n".join([*lines[:1], *(f"|{'---|' * len(row)}" for row in rows[:1]), *lines[1:]])


def _in_table(cell: str) -> str:
    """Escape `|`, which would end the table cell even in a code span."""
    return re.sub(r"(\\*)\|", r"\1\1\\|", _inline(cell))


def _inline(text: str) -> str:
    words = printable(" ".join(text.split()))
    if not isinstance(text, Verbatim):
        return unlinked(re.sub(r"([\\`*_\[\]~$])", r"\\\1", escape(words, quote=False)))
    pad = " " if "`" in (words[:1], words[-1:]) else ""
    # A fence is longer than any row of backticks in the text.
    fence = "`" * (1 + max(map(len, re.findall("`+", words)), default=0))
    return f"{fence}{pad}{words}{pad}{fence}" if words else ""


FORMAT = AnswerFormat(suffix=".md", render=to_markdown)
