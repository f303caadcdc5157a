"""`sweep schema`: what an editor needs to complete and check a launch file or a suite."""

from enum import StrEnum
from importlib.resources import files
from typing import Annotated

import typer


class SchemaName(StrEnum):
    LAUNCH_FILE = "launch-file"
    SUITE = "suite"


def schema(
    name: Annotated[SchemaName, typer.Argument(metavar="launch-file|suite", help="Kind of file.")],
    path: Annotated[
        bool,
        typer.Option(
            "--path", help="Print the path of the schema, for the first line of your file."
        ),
    ] = False,
    page: Annotated[
        bool,
        typer.Option("--page", help="Print a page that explains every key of both files instead."),
    ] = False,
) -> None:
    """Print the JSON Schema of a launch file or of a suite.

    Begin a file with `# yaml-language-server: $schema=PATH`, and an editor with a YAML language server
    completes and checks it.
    """
    shipped = "launch-file.md" if page else f"{name}.json"
    file = files("cudnn_sweep.orchestrator").joinpath("schemas", shipped)
    typer.echo(str(file) if path else file.read_text(encoding="utf-8"), nl=path)
