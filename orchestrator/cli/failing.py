"""Where every folder's errors meet: a user's mistake is a message and exit code 2, no traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.orchestrator.errors import OrchestratorError, UnfinishedError
from cudnn_sweep.workloads.errors import WorkloadError

UNFINISHED, USAGE, INTERRUPTED = 1, 2, 130


@contextmanager
def mistakes_exit() -> Iterator[None]:
    try:
        yield
    except UnfinishedError as error:
        typer.echo(f"sweep: {error}", err=True)
        raise typer.Exit(UNFINISHED) from None
    except (AnalysisError, ClusterError, OrchestratorError, WorkloadError) as error:
        typer.echo(f"sweep: {error}", err=True)
        raise typer.Exit(USAGE) from None
    except KeyboardInterrupt:
        typer.echo("sweep: interrupted; what was recorded is kept, launch again to go on", err=True)
        raise typer.Exit(INTERRUPTED) from None
