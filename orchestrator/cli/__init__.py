"""The command line, a file a command. `--help` imports neither torch nor ray."""

# First: a signal while the rest is imported ends a command as it does later.
from cudnn_sweep.orchestrator.cli import early_signals  # noqa: F401, I001

from collections.abc import Callable
from typing import Annotated, Any

import typer

from cudnn_sweep.orchestrator.cli.advise import advise, bans, bisect, freeze, gate
from cudnn_sweep.orchestrator.cli.audit import SCRIPT_SETTINGS, audit
from cudnn_sweep.orchestrator.cli.catalog import catalog
from cudnn_sweep.orchestrator.cli.commands import SETTINGS, Command, spelled
from cudnn_sweep.orchestrator.cli.compare import compare, repro
from cudnn_sweep.orchestrator.cli.doctor import doctor
from cudnn_sweep.orchestrator.cli.failing import Commands
from cudnn_sweep.orchestrator.cli.launch import cluster, launch, status
from cudnn_sweep.orchestrator.cli.nightly import nightly
from cudnn_sweep.orchestrator.cli.query import QUESTION_SETTINGS, query
from cudnn_sweep.orchestrator.cli.report import report
from cudnn_sweep.orchestrator.cli.trace import trace

app = typer.Typer(
    cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, context_settings=SETTINGS
)
PANELS: dict[str, list[Callable[..., None] | typer.Typer]] = {
    "Measure": [advise, freeze, bans, gate, bisect, launch, status, trace, audit],
    "Read": [query, report, compare, repro, catalog],
    "Every night": [nightly],
    "Clusters": [cluster],
    "This machine": [doctor],
}
FURTHER: dict[Callable[..., None], dict[str, Any]] = {
    audit: SCRIPT_SETTINGS,
    query: QUESTION_SETTINGS,
}
for panel, commands in PANELS.items():
    for each in commands:
        if isinstance(each, typer.Typer):
            app.add_typer(each, rich_help_panel=panel)
        else:
            app.command(
                name=each.__name__.rstrip("_"),
                cls=Command,
                rich_help_panel=panel,
                context_settings=FURTHER.get(each),
            )(spelled(each))


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
