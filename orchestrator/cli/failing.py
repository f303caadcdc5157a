"""How a command ends. Every folder's errors meet here: a mistake is a message and a code, no traceback."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.orchestrator.errors import OrchestratorError, UnfinishedError
from cudnn_sweep.workloads.errors import WorkloadError

UNFINISHED, USAGE, INTERRUPTED, TERMINATED = 1, 2, 130, 143


class Commands(TyperGroup):
    """All of `sweep`: whatever the command, it ends as `mistakes_exit` says."""

    def invoke(self, ctx: Any) -> Any:  # the class of it has no public name
        with mistakes_exit():
            return super().invoke(ctx)


@contextmanager
def mistakes_exit() -> Iterator[None]:
    """SIGTERM, which schedulers send, ends a command as Ctrl-C does."""
    code = INTERRUPTED

    def terminate(number: int, frame: object) -> NoReturn:
        nonlocal code  # Tune answers any KeyboardInterrupt with one of its own
        code = TERMINATED
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, terminate)
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
        leave(code)


def leave(code: int) -> NoReturn:
    """End at once, after Ray Tune ran here. All is closed by then; a tidy end of the interpreter would
    have DuckDB's bindings report, in 40 lines, the reference cycles that Tune leaves behind.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
