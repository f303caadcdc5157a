"""`sweep schema`: what an editor needs to complete and check a launch file or a suite."""

from enum import StrEnum
from importlib.resources import files
from typing import Annotated

import typer


class SchemaName(StrEnum):
    LAUNCH_FILE = "launch-file"
    SUITE = "suite"


def schema(
    name: Annotated[SchemaName, typer.Argument(metavar="launch-file|suite", help="Of which file.")],
    path: Annotated[
        bool, typer.Option("--path", help="Print where it is, for the file's first line.")
    ] = False,
) -> None:
    """Print the JSON Schema of a launch file or of a suite.

    An editor with a YAML language server completes and checks a file that begins with
    `# yaml-language-server: $schema=PATH`.
    """
    file = files("cudnn_sweep.orchestrator").joinpath("schemas", f"{name}.json")
    typer.echo(str(file) if path else file.read_text(encoding="utf-8"), nl=path)
