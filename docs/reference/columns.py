"""docs/records.md and docs/questions.md: what every column of the results, and of each question's answer, means."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from tempfile import TemporaryDirectory

import pyarrow as pa

from cudnn_sweep.analysis.asking.database import Database, open_database
from cudnn_sweep.analysis.asking.dictionary import meaning
from cudnn_sweep.analysis.asking.queries import NamedQuery, load_query, query_names
from cudnn_sweep.analysis.storing.schema import arrow_schema, settings
from cudnn_sweep.analysis.storing.store import open_store


def records_page() -> str:
    lines = [
        "# Columns of `records`",
        "",
        "One row a trial. Made by `make docs`.",
        "",
        "| column | type | null | meaning |",
        "|---|---|---|---|",
        *(line for field in arrow_schema() for line in _column(field)),
        "",
        "In SQL a row also has `config`, a struct of its settings: "
        + ", ".join(f"`{name}`" for name in settings())
        + ".",
        "Rows of an older schema have the usual value of a setting or an axis that came later.",
    ]
    return "\n".join(lines) + "\n"


def _column(field: pa.Field, within: str = "") -> Iterator[str]:
    """A line for a column, and one for each field of the structs that it lists."""
    lists_structs = pa.types.is_list(field.type) and pa.types.is_struct(field.type.value_type)
    shown = "list<struct>" if lists_structs else str(field.type).replace("item: ", "")
    null = "yes" if field.nullable else ""
    yield f"| `{within}{field.name}` | {shown} | {null} | {_meaning(field)} |"
    if lists_structs:
        for inner in field.type.value_type:
            yield from _column(inner, f"{within}{field.name}[].")


SHARED_BY = 3  # questions that have a parameter or a column with one meaning: it is explained once


@dataclass(frozen=True, kw_only=True)
class Explained:
    """A parameter or a column of a question, with what stands beside its name."""

    name: str
    cells: tuple[str, ...]
    is_bold: bool = False

    @property
    def shown(self) -> str:
        return f"**`{self.name}`**" if self.is_bold else f"`{self.name}`"

    @property
    def row(self) -> str:
        return f"| {' | '.join((self.shown, *self.cells))} |"


def _meaning(field: pa.Field) -> str:
    assert field.metadata is not None
    return str(field.metadata[b"meaning"].decode().replace("|", "\\|"))


def questions_page() -> str:
    with TemporaryDirectory() as empty, open_database(open_store(empty)) as database:
        questions = [load_query(name) for name in query_names()]
        parameters = {each.name: list(_parameters(each)) for each in questions}
        columns = {each.name: list(_columns(database, each)) for each in questions}
    lines = [
        "# The questions",
        "",
        "`sweep query NAME` asks one of these questions; its parameters are further options. All read the",
        "view `records`, one row per trial: [its columns](records.md). In SQL each is a table macro of its name:",
        "`select problem, ratio from helps_or_hurts(min_effect := 0.05) where ratio < 1`. There, a parameter with",
        "the name of a column has the prefix `of_` (`of_sweep_id`). A terminal shows the columns in bold;",
        "`--all-columns` and every other format show all columns. Made by `make docs`.",
        "",
        *(f"- [`{each.name}`](#{each.name}): {each.question}" for each in questions),
        "",
        "## Shared",
        "",
        f"Parameters and columns that at least {SHARED_BY} questions have. A column of a record means what it means in",
        "[`records`](records.md).",
        *_table(PARAMETERS, _shared(parameters)),
        *_table(COLUMNS, _shared(columns)),
    ]
    for question in questions:
        lines += ["", f"## {question.name}", "", question.question]
        if question.notes:
            lines += ["", "```text", question.notes, "```"]
        lines += _explained(PARAMETERS, parameters, question)
        lines += _explained(COLUMNS, columns, question)
    return "\n".join(lines) + "\n"


PARAMETERS = ("parameter", "type", "default", "meaning")
COLUMNS = ("column", "type", "meaning")
OfQuestions = dict[str, list[Explained]]


def _parameters(question: NamedQuery) -> Iterator[Explained]:
    for each in question.parameters:
        default = "" if each.default is None else str(each.default)
        yield Explained(name=each.name, cells=(each.type, default, each.meaning))


def _columns(database: Database, question: NamedQuery) -> Iterator[Explained]:
    bold = set(re.findall(r"\w+", " ".join(question.terminal)))
    for field in database.ask(question).schema:
        kind = str(field.type).replace("item: ", "").replace("child: ", "")
        said = (meaning(question, field.name) or "").replace("|", "\\|")
        yield Explained(name=field.name, cells=(kind, said), is_bold=field.name in bold)


def _shared(every: OfQuestions) -> list[Explained]:
    count = Counter(replace(each, is_bold=False) for of in every.values() for each in of)
    shared = [
        each
        for each, questions in count.items()
        if questions >= SHARED_BY and not _is_recorded(each)
    ]
    return sorted(shared, key=lambda each: each.name)


def _explained(head: tuple[str, ...], every: OfQuestions, question: NamedQuery) -> Iterator[str]:
    """By name those of a record and those that are shared, the others in a table."""
    shared, of = _shared(every), every[question.name]
    recorded = [each for each in of if _is_recorded(each)]
    named = [each for each in of if replace(each, is_bold=False) in shared]
    for which, those in (("[Record's](records.md)", recorded), ("[Shared](#shared)", named)):
        if those:
            yield from ["", f"{which} {head[0]}s: {', '.join(each.shown for each in those)}."]
    yield from _table(head, [each for each in of if each not in [*recorded, *named]])


def _is_recorded(each: Explained) -> bool:
    return _recorded().get(each.name) == each.cells[-1]


@cache
def _recorded() -> dict[str, str]:
    """What each column of a record means."""
    return {field.name: _meaning(field) for field in arrow_schema()}


def _table(head: tuple[str, ...], rows: list[Explained]) -> Iterator[str]:
    if rows:
        yield from ["", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
        yield from (each.row for each in rows)
