"""How a command ends. Every folder's errors meet here: a mistake is a message and a code, no traceback."""

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.orchestrator.cli import early_signals
from cudnn_sweep.orchestrator.cli.commands import Group
from cudnn_sweep.orchestrator.cli.standing_by import KEPT, is_watched, say_code
from cudnn_sweep.orchestrator.errors import (
    NOBODYS_FAULT,
    OrchestratorError,
    OutputError,
    UnfinishedError,
    code_of,
)
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.workloads.errors import WorkloadError

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

AGAIN_S = 0.1  # by then the finalizer has ended in which Python dropped an interrupt
MISTAKES = (AnalysisError, ClusterError, OrchestratorError, WorkloadError)


class Commands(Group):
    """All of `sweep`: whatever the command, it ends as `mistakes_exit` says."""

    def main(self, *words: Any, **settings: Any) -> Any:
        """Exit code 1 says that something is worse: what nobody foresaw has another one."""
        with mistakes_exit():
            try:
                return super().main(*words, **settings)
            except SystemExit as ended:
                if isinstance(ended.__context__, BrokenPipeError):  # as Click and Rich end there
                    _end(ExitCode.UNFINISHED)
                raise
            except Exception:  # noqa: BLE001
                traceback.print_exc()
                _end(ExitCode.UNFINISHED)
            finally:
                sys.stdout.flush()  # a full disk may refuse the last bytes alone

    def make_context(self, *words: Any, **settings: Any) -> Any:
        with mistakes_exit():
            return super().make_context(*words, **settings)

    def invoke(self, ctx: Any) -> Any:  # the class of it has no public name
        with mistakes_exit():
            return super().invoke(ctx)


@contextmanager
def mistakes_exit() -> Iterator[None]:
    """SIGTERM, which schedulers send, ends a command as Ctrl-C does."""
    code = ExitCode.INTERRUPTED
    for stream in (sys.stdout, sys.stderr):  # a name of a file may be no UTF-8
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    def terminate(number: int, frame: object) -> NoReturn:
        nonlocal code  # Tune answers any KeyboardInterrupt with one of its own
        code = ExitCode.TERMINATED
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
        _end(error.exit_code)
    except MISTAKES as error:
        typer.echo(f"sweep: {error}", err=True)
        _end(getattr(error, "exit_code", ExitCode.USAGE))
    except BrokenPipeError:  # who reads has enough
        _drop_output()
        _end(ExitCode.UNFINISHED)
    except OSError as error:
        if error.filename is None and error.errno not in NOBODYS_FAULT:
            raise  # not about a file: nobody foresaw it
        _drop_output()
        typer.echo(f"sweep: {error.filename or 'standard output'}: {error.strerror}", err=True)
        _end(code_of(error))
    except typer.Abort:
        _end(ExitCode.INTERRUPTED)
    except KeyboardInterrupt:
        typer.echo(f"sweep: interrupted; {KEPT}", err=True)
        leave(code)


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """A block that writes `file`: where it cannot be written, the user's mistake and not ours."""
    try:
        yield
    except OSError as error:
        raise OutputError.of(file, error) from error


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


def _drop_output() -> None:
    """What is left of standard output goes nowhere: Python would end with a code of its own if it cannot be written."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end(code: int) -> NoReturn:
    if is_watched():  # Ray Tune may have run here
        leave(code)
    sys.exit(code)


def leave(code: int) -> NoReturn:
    """End at once, after Ray Tune ran here. All is closed by then; a tidy end of the interpreter would
    have DuckDB's bindings report, in 40 lines, the reference cycles that Tune leaves behind.
    """
    database = sys.modules.get("cudnn_sweep.analysis.asking.database")
    if database is not None:
        database.close_idle()  # it has a temporary folder
    try:
        sys.stdout.flush()
    except OSError as error:
        code = code or code_of(error)
    with suppress(OSError):
        sys.stderr.flush()
    say_code(code)
    os._exit(code)
