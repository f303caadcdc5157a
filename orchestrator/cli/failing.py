"""How a command ends. Every folder's errors meet here: a mistake is a message and a code, no traceback."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.orchestrator.cli import early_signals
from cudnn_sweep.orchestrator.cli.commands import Group
from cudnn_sweep.orchestrator.cli.standing_by import (
    INTERRUPTED,
    KEPT,
    TERMINATED,
    UNFINISHED,
    is_watched,
    say_code,
)
from cudnn_sweep.orchestrator.errors import (
    OrchestratorError,
    OutputError,
    UnfinishedError,
)
from cudnn_sweep.workloads.errors import WorkloadError

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

USAGE = 2
AGAIN_S = 0.1  # by then the finalizer has ended in which Python dropped an interrupt
MISTAKES = (AnalysisError, ClusterError, OrchestratorError, WorkloadError)


class Commands(Group):
    """All of `sweep`: whatever the command, it ends as `mistakes_exit` says."""

    def invoke(self, ctx: Any) -> Any:  # the class of it has no public name
        with mistakes_exit():
            return super().invoke(ctx)


@contextmanager
def mistakes_exit() -> Iterator[None]:
    """SIGTERM, which schedulers send, ends a command as Ctrl-C does."""
    code = INTERRUPTED
    for stream in (sys.stdout, sys.stderr):  # a name of a file may be no UTF-8
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    def terminate(number: int, frame: object) -> NoReturn:
        nonlocal code  # Tune answers any KeyboardInterrupt with one of its own
        code = TERMINATED
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `timeout` sends it twice
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, terminate)
    if signal.getsignal(signal.SIGINT) is early_signals.end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with _no_interrupt_dropped():
            yield
    except UnfinishedError as error:
        typer.echo(f"sweep: {error}", err=True)
        if _came_of_an_interrupt(error):  # which took along what the launch needs to end well
            leave(code)
        _end(UNFINISHED)
    except MISTAKES as error:
        typer.echo(f"sweep: {error}", err=True)
        _end(USAGE)
    except OSError as error:
        if error.filename is None:
            raise  # not about a file: nobody foresaw it
        typer.echo(f"sweep: {error.filename}: {error.strerror}", err=True)
        _end(USAGE)
    except KeyboardInterrupt:
        typer.echo(f"sweep: interrupted; {KEPT}", err=True)
        leave(code)


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """A block that writes `file`: where it cannot be written, the user's mistake and not ours."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {file}: {error.strerror}") from error


def _came_of_an_interrupt(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


@contextmanager
def _no_interrupt_dropped() -> Iterator[None]:
    """Python drops what is raised in a finalizer or in a hook of fork(): there Ctrl-C comes once more."""
    usual = sys.unraisablehook

    def raise_again(dropped: "UnraisableHookArgs") -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            Timer(AGAIN_S, os.kill, (os.getpid(), signal.SIGINT)).start()
        else:
            usual(dropped)

    sys.unraisablehook = raise_again
    try:
        yield
    finally:
        sys.unraisablehook = usual


def _end(code: int) -> NoReturn:
    if is_watched():  # Ray Tune may have run here
        leave(code)
    raise typer.Exit(code)


def leave(code: int) -> NoReturn:
    """End at once, after Ray Tune ran here. All is closed by then; a tidy end of the interpreter would
    have DuckDB's bindings report, in 40 lines, the reference cycles that Tune leaves behind.
    """
    database = sys.modules.get("cudnn_sweep.analysis.asking.database")
    if database is not None:
        database.close_idle()  # it has a temporary folder
    sys.stdout.flush()
    sys.stderr.flush()
    say_code(code)
    os._exit(code)
