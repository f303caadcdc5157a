"""The command `sweep query`."""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cudnn_sweep.analysis.errors import QueryError
from cudnn_sweep.orchestrator.cli.commands import echo
from cudnn_sweep.orchestrator.cli.launch_file_results import (
    ReferenceOption,
    ResultsOption,
    asking,
    check_sweep,
    open_results,
    warn_of,
)
from cudnn_sweep.orchestrator.errors import OutputError
from cudnn_sweep.orchestrator.terminal.write_whole import writing, written_anew

if TYPE_CHECKING:
    import pyarrow as pa

    from cudnn_sweep.analysis.engine.queries import NamedQuery
    from cudnn_sweep.analysis.results.marked import MarkedColumn
    from cudnn_sweep.analysis.store.stored import Stored

# Parameters of a question are also options, such as `--min-effect 0.05`.
QUESTION_SETTINGS = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}

RUNNING = """
select sweep_id, count(*) as recorded, max(plan_trials) as planned
from records
where
    ($sweep_id is null or sweep_id glob $sweep_id)
    and sweep_id not in (select sweep_id from ended_sweeps() where has_ended)
group by sweep_id
having recorded < planned and max(ended_at) > now() - interval 10 minutes
"""

Format = Literal["table", "csv", "json", "markdown", "parquet"]


def _beginning_with(incomplete: str) -> list[str]:
    from cudnn_sweep.analysis.engine.queries import own_queries, query_names

    return [name for name in [*query_names(), *own_queries()] if name.startswith(incomplete)]


def query(
    context: typer.Context,
    question: Annotated[
        str | None,
        typer.Argument(
            help="Name of a question (see --list), path of a .sql file, or SQL text.",
            autocompletion=_beginning_with,
        ),
    ] = None,
    results: ResultsOption = None,
    reference: ReferenceOption = False,
    format: Annotated[Format, "Format of the answer."] = "table",
    json: Annotated[bool, "Short for --format json."] = False,
    output: Annotated[Path | None, "Write to this file instead of the terminal."] = None,
    all_columns: Annotated[
        bool, "Show all columns in a table. Other formats always have all columns."
    ] = False,
    prelude: Annotated[bool, "Print SQL that gives the same answer in plain DuckDB."] = False,
    export: Annotated[
        Path | None, "Write all records and questions to this file, a DuckDB database."
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List the questions. NAME --help explains one.")
    ] = False,
    help_: Annotated[
        bool, typer.Option("--help", "-h", help="Show this message, or explain the given question.")
    ] = False,
) -> None:
    """Query the stored results with a named question or with SQL.

    Parameters of a question are given as options: `sweep query helps_or_hurts --min-effect 0.05`.
    SQL can read the view `records`, which has a row for each trial, and the named questions. The
    files ./NAME.sql and ./queries/NAME.sql define further questions.
    """
    if help_:
        typer.echo(context.get_help() if question is None else _explained(_asked(question)))
        return
    if list_:
        _print_questions()
        return
    if export is not None:
        if odd := " ".join([*filter(None, [question]), *context.args]):
            raise QueryError(f"--export takes neither a question nor its options: leave out {odd}")
        _export(open_results(results, reference=reference), export)
        return
    asked = None if prelude and not question else _asked(question)
    store = open_results(results, reference=reference)
    if asked is None or prelude:
        _print_prelude(store, asked, context.args)
    else:
        answer(store, asked, context.args, "json" if json else format, output, all_columns)


def _explained(asked: "NamedQuery") -> str:
    from cudnn_sweep.analysis.engine.dictionary import columns_explained

    parts = [asked.question]
    if asked.notes:
        parts.append(asked.notes)
    if asked.parameters:
        options = (
            f"    --{each.name.replace('_', '-')} {each.type} (default {each.default}): {each.meaning}"
            for each in asked.parameters
        )
        parts.append("\n".join(["Parameters:", *options]))
    columns = columns_explained(asked)
    margin = max(map(len, columns))
    lines = [f"    {name:<{margin}}  {text}".rstrip() for name, text in columns.items()]
    parts.append("\n".join(["Columns:", *lines]))
    if asked.terminal:
        parts.append(
            f"A terminal shows {', '.join(asked.terminal)}; --all-columns shows all columns."
        )
    return "\n\n".join(parts)


def _print_questions() -> None:
    from cudnn_sweep.analysis.engine import queries

    files = queries.own_queries()
    own, faults = queries.readable_queries(files)
    names = *queries.query_names(), *queries.part_names()
    titled = {name: queries.load_query(name) for name in names}
    titled |= {f"{name} ({files[name]})": asked for name, asked in own.items()}
    for title, asked in titled.items():
        echo(f"{title}: {asked.question}")
    for fault in faults:
        echo(f"note: left out: {fault}", err=True)


def _print_prelude(store: "Stored", asked: "NamedQuery | None", options: list[str]) -> None:
    from cudnn_sweep.analysis.engine.prelude import prelude_sql

    statements = asked.prepared(asked.parse_values(_given(options))) if asked else ""
    if not all(each.folder.is_local for each in store.stores):
        typer.echo("note: in plain DuckDB, run `INSTALL httpfs; LOAD httpfs;` first", err=True)
    typer.echo(prelude_sql(store) + ("\n" + statements if statements else ""), nl=False)


def _export(store: "Stored", file: Path) -> None:
    """Write records and questions to a new database. Raises OutputError if the file exists."""
    from cudnn_sweep.analysis.engine.database import export

    if os.path.lexists(file):
        raise OutputError(f"{file} exists: remove it, or name another file for --export")
    with written_anew(file) as made:
        torn_files = export(store, made)
    warn_of(torn_files)


def _asked(question: str | None) -> "NamedQuery":
    """Load a question from its name, from the path of a .sql file, or from SQL text."""
    from cudnn_sweep.analysis.engine import queries

    own = queries.own_queries()
    if question is None or (question.startswith("--") and len(question.split()) == 1):
        raise QueryError(
            f"the question is missing or not first: found {question or 'none'}, allowed are "
            f"{', '.join([*queries.query_names(), *own])}, a path ending in .sql, or SQL"
        )
    if len(question.split()) > 1 and not os.path.isfile(question):
        return queries.parse_query("the SQL given", question)
    if question.endswith(".sql"):
        return queries.read_query(question, Path(question))
    return queries.load_query(question, own)


def _given(options: list[str]) -> dict[str, str]:
    """Parse the options into a dict, such as {"min_effect": "0.05"} for `--min-effect 0.05`."""
    given: dict[str, str] = {}
    rest = iter(options)
    for option in rest:
        name, equals, value = option.partition("=")
        if not name.startswith("--"):
            raise QueryError(f"found {option!r} after the question, allowed are --NAME VALUE")
        found = value if equals else next(rest, None)
        if found is None:
            raise QueryError(f"option {name} needs a value")
        given[name.removeprefix("--").replace("-", "_")] = found
    return given


def answer(
    store: "Stored",
    asked: "NamedQuery",
    options: list[str],
    format: Format,
    output: Path | None = None,
    all_columns: bool = False,
) -> None:
    from pyarrow import concat_tables

    from cudnn_sweep.analysis.results.contrast import stored_contrasts
    from cudnn_sweep.analysis.results.marked import marked_columns
    from cudnn_sweep.analysis.store.stored import shown

    given = _given(options)
    values = asked.parse_values(given)
    sweep_id = values.get("sweep_id")
    check_sweep(store, None if sweep_id is None else str(sweep_id))
    with asking(store) as database:
        is_alone = "field" in given and not {"baseline", "candidate"} & given.keys()
        stored = stored_contrasts(database) if is_alone else ()
        contrasts = [
            contrast.values() for contrast in stored if contrast.field == values["field"]
        ] or [{}]
        found = concat_tables(
            [database.query(asked.sql, values | contrast) for contrast in contrasts]
        )
        if len(contrasts) > 1 and "contrast" in found.column_names:
            asked = replace(asked, terminal=("contrast", *asked.terminal))
        for running in database.query(RUNNING, {"sweep_id": sweep_id}).to_pylist():
            text = "note: {sweep_id} has not ended: {recorded} of {planned} trials are stored"
            echo(text.format(**running), err=True)
        if not found.num_rows:
            why = asked.none or "no stored record answers this question"
            if database.is_empty:
                why = f"no results are stored in {shown(store)}"
            echo(f"note: the answer has no rows: {why}", err=True)
            if format == "table" and output is None:
                return
        is_short = format == "table" and asked.terminal and not all_columns
        marked = marked_columns(database, asked, found) if is_short else None
    deliver(found, format, output, marked)
    if is_short:
        more = f"--all-columns shows all {found.num_columns} columns; --help explains them"
        typer.echo(f"note: {more}", err=True)


def deliver(
    answer: "pa.Table",
    format: Format,
    output: Path | None,
    marked: "Sequence[MarkedColumn] | None" = None,
) -> None:
    """Print the answer, or write it to `output`. A table shows `marked` instead, if it is given."""
    from cudnn_sweep.analysis.engine import formats
    from cudnn_sweep.orchestrator.terminal.drawing import draw, draw_marked

    if format != "table":
        _write(getattr(formats, f"to_{format}")(answer), output)
        return
    is_seen = output is None and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_seen else None
    _write(draw(answer, width) if marked is None else draw_marked(marked, width), output)


def _write(content: str | bytes, output: Path | None) -> None:
    if output is None:
        if isinstance(content, bytes):
            raise QueryError("format parquet needs --output FILE")
        typer.echo(content, nl=False)
        return
    with writing(output):
        output.write_bytes(content.encode() if isinstance(content, str) else content)
