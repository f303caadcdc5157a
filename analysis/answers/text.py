"""Writes an answer as text for a terminal. Facts are wrapped, but commands stay on one line."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap

from rich.cells import cell_len, set_cell_size

from cudnn_sweep.analysis.answers.answer import Answer, AnswerFormat, Section
from cudnn_sweep.analysis.words import one_line, printable

WIDTH = 80
LABEL = 12  # least width of the labels


def to_text(answer: Answer) -> str:
    parts = [
        [answer.headline],
        [f"    {line}" for line in answer.paste],
        *(list(lines_of(section)) for section in answer.sections if not section.is_empty),
        [f"{what}: {command}" for what, command in answer.commands],
    ]
    return printable("\n\n".join("\n".join(part) for part in parts if part)) + "\n"


def _facts(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    margin = max([LABEL, *(cell_len(label) + 2 for label, _ in rows)])
    for label, text in rows:
        lines = wrap(text, WIDTH - margin, break_long_words=False, break_on_hyphens=False)
        for head, line in zip_longest([label], lines, fillvalue=""):
            yield f"{head:<{margin}}{line}"


def lines_of(section: Section) -> Iterator[str]:
    if section.title:
        yield section.title
    for lines in section.items:
        yield "\n    ".join(map(one_line, lines))
    for parts in section.notes:
        yield one_line(" ".join(parts))
    has_head = section.head and section.rows
    yield from _table([section.head, *section.rows]) if has_head else _facts(section.rows)


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    sizes = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield one_line("  ".join(map(set_cell_size, row, sizes)).rstrip())


FORMAT = AnswerFormat(suffix=".txt", render=to_text)
