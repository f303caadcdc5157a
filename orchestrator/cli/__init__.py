"""Command-line interface. `--help` imports neither torch nor Ray."""

# Imported first, because it handles signals that arrive during the other imports.
from cudnn_sweep.orchestrator.cli import early  # noqa: F401, I001

from collections.abc import Callable
from typing import Annotated, Any

import typer

from cudnn_sweep.orchestrator.cli.advise import advise, bans, bisect, freeze, gate
from cudnn_sweep.orchestrator.cli.audit import SCRIPT_SETTINGS, audit
from cudnn_sweep.orchestrator.cli.catalog import schema, suites, workloads
from cudnn_sweep.orchestrator.cli.commands import EPILOG, SETTINGS, Command, Group, spelled
from cudnn_sweep.orchestrator.cli.compare import compare, repro
from cudnn_sweep.orchestrator.cli.doctor import doctor
from cudnn_sweep.orchestrator.cli.failing import Commands
from cudnn_sweep.orchestrator.cli.launch import attach, down, launch, nightly, pull, status, stop
from cudnn_sweep.orchestrator.cli.query import QUESTION_SETTINGS, query
from cudnn_sweep.orchestrator.cli.report import report
from cudnn_sweep.orchestrator.cli.trace import trace

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
    epilog=EPILOG,
    rich_markup_mode=None,  # plain text is printed faster
)
PANELS: dict[str, list[Callable[..., None]]] = {
    "Measure": [advise, freeze, bans, gate, bisect, launch, status, trace, audit],
    "Read": [query, report, compare, repro],
    "Every night": [nightly],
    "This machine": [doctor],
}
GROUPS: dict[str, tuple[str, str, list[Callable[..., None]]]] = {
    "list": ("Read", "List what is available", [suites, workloads, schema]),
    "cluster": ("Clusters", "Manage the sweeps on a cluster", [attach, stop, pull, down]),
}
FURTHER: dict[Any, dict[str, Any]] = {audit: SCRIPT_SETTINGS, query: QUESTION_SETTINGS}


def _add(group: typer.Typer, panel: str | None, commands: list[Callable[..., None]]) -> None:
    for each in commands:
        settings: Any = {"rich_help_panel": panel, "context_settings": FURTHER.get(each)}
        group.command(cls=Command, epilog=EPILOG, **settings)(spelled(each))


for panel, commands in PANELS.items():
    _add(app, panel, commands)
for name, (panel, what, commands) in GROUPS.items():
    names = ", ".join(command.__name__ for command in commands)
    about = f"{what}: {names}."
    group = typer.Typer(name=name, cls=Group, no_args_is_help=True, help=about, epilog=EPILOG)
    _add(group, None, commands)
    app.add_typer(group, rich_help_panel=panel)


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
    """Measure how much PyTorch's cuDNN settings speed up or slow down a model."""
