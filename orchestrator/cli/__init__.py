"""The command line, a file a command. `--help` imports neither torch nor ray."""

# First: a signal while the rest is imported ends a command as it does later.
from cudnn_sweep.orchestrator.cli import early_signals  # noqa: F401, I001

import typer

from cudnn_sweep.orchestrator.cli.catalog import suites, workloads
from cudnn_sweep.orchestrator.cli.cluster import attach, down, pull, status, stop
from cudnn_sweep.orchestrator.cli.compare import compare
from cudnn_sweep.orchestrator.cli.doctor import doctor
from cudnn_sweep.orchestrator.cli.failing import Commands
from cudnn_sweep.orchestrator.cli.launch import launch
from cudnn_sweep.orchestrator.cli.nightly import nightly
from cudnn_sweep.orchestrator.cli.overhead import overhead
from cudnn_sweep.orchestrator.cli.query import CONTEXT_SETTINGS, query
from cudnn_sweep.orchestrator.cli.report import report
from cudnn_sweep.orchestrator.cli.scale import scale
from cudnn_sweep.orchestrator.cli.schedule import schedule
from cudnn_sweep.orchestrator.cli.trace import trace
from cudnn_sweep.orchestrator.cli.validate import validate

app = typer.Typer(
    cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False
)
app.command()(launch)
app.command(context_settings=CONTEXT_SETTINGS)(query)
app.command()(compare)
app.command()(report)
app.command()(nightly)
for command in (attach, status, stop, pull, down):
    app.command()(command)
app.command()(trace)
app.command()(suites)
app.command()(workloads)
app.command()(overhead)
app.add_typer(scale)
app.command()(doctor)
app.add_typer(validate)
app.add_typer(schedule)


@app.callback()
def sweep() -> None:
    """Measure where PyTorch's cuDNN settings help or hurt, by how much, and when it pays back."""
