"""`sweep query`: a named question, a .sql file or SQL text, over the stored results."""

import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cudnn_sweep.analysis.errors import QueryError
from cudnn_sweep.orchestrator.cli.launch_file_results import results_of_the_launch_file
from cudnn_sweep.orchestrator.cli.writing import writing

if TYPE_CHECKING:
    import pyarrow as pa

    from cudnn_sweep.analysis.queries import NamedQuery
    from cudnn_sweep.analysis.store import Store

# A question's own parameters are further options: `sweep query helps_or_hurts --min-effect 0.05`.
CONTEXT_SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True}


class Format(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    MARKDOWN = "markdown"
    PARQUET = "parquet"


def query(
    context: typer.Context,
    question: Annotated[
        str | None,
        typer.Argument(help="A name (--list shows them), a path ending in .sql, or SQL."),
    ] = None,
    results: Annotated[
        str | None,
        typer.Option(
            help="Folder or URL (s3://, gs://), in place of what ./cluster.yaml says (./results)."
        ),
    ] = None,
    format: Annotated[Format, typer.Option(help="How the answer is written.")] = Format.TABLE,
    output: Annotated[
        Path | None, typer.Option(help="Write to this file, not to the terminal.")
    ] = None,
    prelude: Annotated[
        bool, typer.Option("--prelude", help="Print the SQL that asks plain DuckDB the same.")
    ] = False,
    list_: Annotated[
        bool, typer.Option("--list", help="Print the questions and their parameters.")
    ] = False,
) -> None:
    """Ask the stored results a question, in SQL or by name.

    A named question's parameters are further options: `sweep query helps_or_hurts --min-effect 0.05`.
    SQL may read the view `records`, a row a trial, and nothing else. A file of your own, ./NAME.sql or
    ./queries/NAME.sql, is asked by its name too.
    """
    from cudnn_sweep.analysis.store import open_store

    if list_:
        _print_questions()
        return
    store = open_store(results or results_of_the_launch_file())
    if prelude:
        _print_prelude(store, question, context.args)
    else:
        deliver(_ask(store, _asked(question), context.args), format, output)


def _print_questions() -> None:
    from cudnn_sweep.analysis.queries import (
        load_query,
        own_queries,
        query_names,
        readable_queries,
    )

    for name in query_names():
        _print_question(load_query(name), name)
    files = own_queries()
    own, faults = readable_queries(files)
    for name, asked in own.items():
        _print_question(asked, f"{name} ({files[name]})")
    for fault in faults:
        typer.echo(f"note: no question: {fault}", err=True)


def _print_question(asked: "NamedQuery", title: str) -> None:
    typer.echo(f"{title}: {asked.question}")
    for each in asked.parameters:
        option = each.name.replace("_", "-")
        typer.echo(f"    --{option} {each.type} (default {each.default}): {each.meaning}")


def _print_prelude(store: "Store", question: str | None, options: list[str]) -> None:
    from cudnn_sweep.analysis.prelude import prelude_sql

    asked = _asked(question) if question else None
    statements = asked.prepared(asked.parse_values(_given(options))) if asked else ""
    if not store.folder.is_local:
        typer.echo("note: plain DuckDB needs `INSTALL httpfs; LOAD httpfs;` before this", err=True)
    typer.echo(prelude_sql(store) + ("\n" + statements if statements else ""), nl=False)


def _asked(question: str | None) -> "NamedQuery":
    """The question meant by a name, a path ending in .sql, or SQL (which has white space in it)."""
    from cudnn_sweep.analysis.queries import (
        load_query,
        own_queries,
        parse_query,
        query_names,
        read_query,
    )

    own = own_queries()
    if question is None or (question.startswith("--") and len(question.split()) == 1):
        raise QueryError(
            f"the question is missing or not first: found {question or 'none'}, allowed are "
            f"{', '.join([*query_names(), *own])}, a path ending in .sql, or SQL"
        )
    if len(question.split()) > 1 and not _is_file(question):
        return parse_query("the SQL given", question)
    if question.endswith(".sql"):
        return read_query(question, Path(question))
    return load_query(question, own)


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except OSError:  # longer than names may be
        return False


def _given(options: list[str]) -> dict[str, str]:
    """`--min-effect 0.05` or `--min_effect=0.05`, as {"min_effect": "0.05"}."""
    given: dict[str, str] = {}
    rest = iter(options)
    for option in rest:
        name, equals, value = option.partition("=")
        if not name.startswith("--"):
            raise QueryError(f"found {option!r} after the question, allowed are --NAME VALUE")
        found = value if equals else next(rest, None)
        if found is None:
            raise QueryError(f"option {name} lacks its value")
        given[name.removeprefix("--").replace("-", "_")] = found
    return given


def _ask(store: "Store", asked: "NamedQuery", options: list[str]) -> "pa.Table":
    from cudnn_sweep.analysis.database import left_out, open_database

    values = asked.parse_values(_given(options))
    with open_database(store) as database:
        if database.is_empty:
            typer.echo(f"note: no results are stored in {store.folder.shown()}", err=True)
        answer = database.query(asked.sql, values)
        for torn in database.torn_files:  # those too that the question came upon
            typer.echo(f"warning: {left_out(torn)}", err=True)
        return answer


def deliver(answer: "pa.Table", format: Format, output: Path | None) -> None:
    from cudnn_sweep.analysis import formats
    from cudnn_sweep.orchestrator.cli.drawing import draw

    is_seen = output is None and sys.stdout.isatty()
    match format:
        case Format.TABLE:
            _write(draw(answer, shutil.get_terminal_size().columns if is_seen else None), output)
        case Format.CSV:
            _write(formats.to_csv(answer), output)
        case Format.JSON:
            _write(formats.to_json(answer), output)
        case Format.MARKDOWN:
            _write(formats.to_markdown(answer), output)
        case Format.PARQUET:
            _write(formats.to_parquet(answer), output)


def _write(content: str | bytes, output: Path | None) -> None:
    if output is None:
        if isinstance(content, bytes):
            raise QueryError("format parquet needs --output FILE")
        typer.echo(content, nl=False)
        return
    with writing(output):
        output.write_bytes(content.encode() if isinstance(content, str) else content)
