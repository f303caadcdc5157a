"""The command line, a file a command. `--help` imports neither torch nor ray."""

# First: a signal while the rest is imported ends a command as it does later.
from cudnn_sweep.orchestrator.cli import early_signals  # noqa: F401, I001

from typing import Annotated

import typer

from cudnn_sweep.orchestrator.cli.advise import advise
from cudnn_sweep.orchestrator.cli import audit as auditing
from cudnn_sweep.orchestrator.cli.catalog import suites, workloads
from cudnn_sweep.orchestrator.cli.cluster import attach, down, pull, status, stop
from cudnn_sweep.orchestrator.cli.commands import (
    CLUSTERS,
    HELP_NAMES,
    MACHINE,
    MEASURE,
    NIGHTS,
    READ,
    Command,
)
from cudnn_sweep.orchestrator.cli.compare import compare
from cudnn_sweep.orchestrator.cli.doctor import doctor
from cudnn_sweep.orchestrator.cli.failing import Commands
from cudnn_sweep.orchestrator.cli.launch import launch
from cudnn_sweep.orchestrator.cli.nightly import nightly
from cudnn_sweep.orchestrator.cli.query import CONTEXT_SETTINGS, query
from cudnn_sweep.orchestrator.cli.report import report
from cudnn_sweep.orchestrator.cli.repro import repro
from cudnn_sweep.orchestrator.cli.schedule import schedule
from cudnn_sweep.orchestrator.cli.schema import schema
from cudnn_sweep.orchestrator.cli.trace import trace
from cudnn_sweep.orchestrator.cli.try_ import try_

app = typer.Typer(
    cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, context_settings=HELP_NAMES
)
app.command(cls=Command, rich_help_panel=MEASURE)(advise)
app.command(name="try", cls=Command, rich_help_panel=MEASURE)(try_)
app.command(cls=Command, rich_help_panel=MEASURE)(launch)
app.command(cls=Command, rich_help_panel=MEASURE)(trace)
app.command(cls=Command, rich_help_panel=MEASURE, context_settings=auditing.CONTEXT_SETTINGS)(
    auditing.audit
)
app.command(cls=Command, rich_help_panel=READ, context_settings=CONTEXT_SETTINGS)(query)
app.command(cls=Command, rich_help_panel=READ)(report)
app.command(cls=Command, rich_help_panel=READ)(compare)
app.command(cls=Command, rich_help_panel=READ)(repro)
app.command(cls=Command, rich_help_panel=READ)(suites)
app.command(cls=Command, rich_help_panel=READ)(workloads)
app.command(cls=Command, rich_help_panel=READ)(schema)
app.command(cls=Command, rich_help_panel=NIGHTS)(nightly)
app.add_typer(schedule, rich_help_panel=NIGHTS)
for command in (attach, status, stop, pull):
    app.command(cls=Command, rich_help_panel=CLUSTERS)(command)
app.command(cls=Command, rich_help_panel=CLUSTERS)(down)
app.command(cls=Command, rich_help_panel=MACHINE)(doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"cudnn-sweep {version('cudnn-sweep')}")
        raise typer.Exit


@app.callback()
def sweep(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Measure where PyTorch's cuDNN settings help or hurt, by how much, and when they break even."""
