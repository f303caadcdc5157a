"""docs/records.md and docs/questions.md: what every column of the results, and of each question's answer, means."""

import re
from collections.abc import Iterator
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
        "In rows of an older schema a setting that the schema lacked has the value that was in force.",
    ]
    return "\n".join(lines) + "\n"


def _column(field: pa.Field, within: str = "") -> Iterator[str]:
    """A line for a column, and one for each field of the structs that it lists."""
    assert field.metadata is not None
    lists_structs = pa.types.is_list(field.type) and pa.types.is_struct(field.type.value_type)
    shown = "list<struct>" if lists_structs else str(field.type).replace("item: ", "")
    null = "yes" if field.nullable else ""
    said = field.metadata[b"meaning"].decode().replace("|", "\\|")
    yield f"| `{within}{field.name}` | {shown} | {null} | {said} |"
    if lists_structs:
        for inner in field.type.value_type:
            yield from _column(inner, f"{within}{field.name}[].")


def questions_page() -> str:
    with TemporaryDirectory() as empty, open_database(open_store(empty)) as database:
        questions = [load_query(name) for name in query_names()]
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
            *(line for each in questions for line in _question(database, each)),
        ]
    return "\n".join(lines) + "\n"


def _question(database: Database, question: NamedQuery) -> Iterator[str]:
    yield from ["", f"## {question.name}", "", question.question]
    if question.notes:
        yield from ["", "```text", question.notes, "```"]
    if question.parameters:
        yield from ["", "| parameter | type | default | meaning |", "|---|---|---|---|"]
    for each in question.parameters:
        default = "" if each.default is None else str(each.default)
        yield f"| `{each.name}` | {each.type} | {default} | {each.meaning} |"
    marked = set(re.findall(r"\w+", " ".join(question.terminal)))
    yield from ["", "| column | type | meaning |", "|---|---|---|"]
    for field in database.ask(question).schema:
        kind = str(field.type).replace("item: ", "").replace("child: ", "")
        said = (meaning(question, field.name) or "").replace("|", "\\|")
        shown = f"**`{field.name}`**" if field.name in marked else f"`{field.name}`"
        yield f"| {shown} | {kind} | {said} |"
