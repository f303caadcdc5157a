"""What the commands of studies share."""

from collections.abc import Callable
from typing import Annotated

import typer

from cudnn_sweep.orchestrator.cli.failing import mistakes_exit

SEED = 1
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same figures.")]


def run(study: Callable[..., None]) -> None:
    """Its options from the command line; a mistake is a message and exit code 2, as `sweep` has it."""
    typer.run(mistakes_exit()(study))
