"""A night as Markdown, for the summary of a CI step or a pull request.

Names come from users: they stand in code spans, in which nothing is markup, a link or a mention.
"""

import re
from collections.abc import Sequence

from cudnn_sweep.analysis.engine.formats import unlinked
from cudnn_sweep.analysis.nights.outcome import NightOutcome
from cudnn_sweep.analysis.nights.reports.report import NightReport
from cudnn_sweep.analysis.nights.reports.sections import Section, Verbatim, headline, sections
from cudnn_sweep.analysis.nights.series import Series
from cudnn_sweep.analysis.words import printable


def to_markdown(outcome: NightOutcome, series: Sequence[Series] = ()) -> str:
    shown = sections(outcome, series)
    parts = [
        f"## {_inline(headline(outcome))}",
        *(part for section in shown if not section.is_rest for part in _section(section)),
        "<details><summary>The rest</summary>",
        *(part for section in shown if section.is_rest for part in _section(section)),
        "</details>",
    ]
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> list[str]:
    lines = [f"- {_inline(reason)}" for reason in section.reasons]
    for change in section.changes:
        lines.append(f"- **{_inline(change.summary)}**")
        lines += [f"  - {_inline(detail)}" for detail in change.details]
    notes = [" ".join(map(_inline, words)) for words in section.notes]
    rows = [section.head, ["---"] * len(section.head), *section.rows] if section.rows else []
    table = "\n".join(f"| {' | '.join(map(_in_table, row))} |" for row in rows)
    return [part for part in (f"### {section.title}", "\n".join(lines), *notes, table) if part]


def _in_table(cell: str) -> str:
    """Escape a `|`, which ends a cell even in code; double the backslashes before it."""
    return re.sub(r"(\\*)\|", r"\1\1\\|", cell if cell == "---" else _inline(cell))


def _inline(text: str) -> str:
    """Return text or code in which nothing is markup."""
    words = printable(" ".join(text.split()))
    if not isinstance(text, Verbatim):
        words = words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return unlinked(re.sub(r"([\\`*_\[\]~$])", r"\\\1", words))
    pad = " " if "`" in (words[:1], words[-1:]) else ""
    fence = "`" * (1 + max(map(len, re.findall("`+", words)), default=0))  # longer than any within
    return f"{fence}{pad}{words}{pad}{fence}" if words else ""


REPORT = NightReport(file="night.md", render=to_markdown)
