"""Turns errors into messages and exit codes at the end of a command."""

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from threading import Timer
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from cudnn_sweep.orchestrator.cli import early
from cudnn_sweep.orchestrator.cli.commands import Group, echo
from cudnn_sweep.orchestrator.cli.watchdog import KEPT, is_watched, say_code
from cudnn_sweep.orchestrator.errors import MISTAKES, exit_code_of
from cudnn_sweep.orchestrator.exit_codes import ExitCode

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

AGAIN_S = 0.1  # by then the finalizer that dropped an interrupt has ended
CLICK_EXCEPTION: Any = typer.BadParameter.__mro__[2]  # this class has no public name


class Commands(Group):
    def make_context(self, *args: Any, **settings: Any) -> Any:
        with mistakes_exit():  # --help is printed here
            return super().make_context(*args, **settings)

    def invoke(self, ctx: Any) -> Any:  # the class of `ctx` has no public name
        with mistakes_exit():
            return super().invoke(ctx)


@contextmanager
def mistakes_exit() -> Iterator[None]:
    """Exit with the right code if the `with` block raises. Treat SIGTERM like Ctrl-C."""
    code = ExitCode.INTERRUPTED
    for stream in (sys.stdout, sys.stderr):  # file names may not be valid UTF-8
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    def terminate(number: int, frame: object) -> NoReturn:
        nonlocal code  # stored here, because Ray Tune replaces the exception
        code = ExitCode.TERMINATED
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `timeout` sends SIGTERM twice
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, terminate)
    if signal.getsignal(signal.SIGINT) is early.end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with _no_interrupt_dropped():
            try:
                yield
            finally:  # a failed write to standard output must raise here
                print(end="", flush=True)
    except (typer.Exit, CLICK_EXCEPTION):  # Typer prints these
        raise
    except (KeyboardInterrupt, typer.Abort):
        _print(f"sweep: interrupted; {KEPT}")
        leave(code)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # Python's code 1 would mean WORSE
        text, ends_with = _ending(error)
        _print(text)
        if _came_of(error, KeyboardInterrupt):  # a normal exit may fail after Ctrl-C
            leave(code)
        if is_watched():  # Ray Tune may have run here
            leave(ends_with)
        raise typer.Exit(ends_with) from None


def _ending(error: BaseException) -> tuple[str, int]:
    if isinstance(error, MISTAKES):
        return f"sweep: {error}", exit_code_of(error)
    is_exit = isinstance(error, SystemExit)  # Rich also raises it for a broken pipe
    if isinstance(error, BrokenPipeError) or (is_exit and _came_of(error, BrokenPipeError)):
        _output_fails()  # the reader has closed the pipe
        return "", ExitCode.UNFINISHED
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else ExitCode.UNFINISHED
        return "", ExitCode.TERMINATED if code == signal.SIGTERM else code  # Ray's code for SIGTERM
    if not isinstance(error, OSError):
        return traceback.format_exc().rstrip(), ExitCode.UNFINISHED
    if error.filename is not None:
        return f"sweep: {error.filename}: {error.strerror}", exit_code_of(error)
    where = "standard output: " * _output_fails()
    return f"sweep: {where}{error.strerror or error}", ExitCode.UNFINISHED


def _output_fails() -> bool:
    """Return whether standard output fails. If it does, redirect it so that Python can exit."""
    try:
        print(flush=True)  # write a newline, because the buffer may be empty
    except OSError:
        with suppress(OSError):  # standard output may have no descriptor
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _print(text: str) -> None:
    with suppress(OSError):
        if text:
            echo(text, err=True)


def _came_of(error: BaseException | None, kind: type[BaseException]) -> bool:
    while error is not None and not isinstance(error, kind):
        error = error.__context__
    return error is not None


@contextmanager
def _no_interrupt_dropped() -> Iterator[None]:
    """Repeat a Ctrl-C that Python drops because a finalizer or fork() hook is running."""
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


def leave(code: int) -> NoReturn:
    """Flush the output and end this process at once, without Python's usual cleanup."""
    print(end="", flush=True)
    database = sys.modules.get("cudnn_sweep.analysis.engine.database")
    if database is not None:
        database.close_idle()  # remove the database's temporary folder
    with suppress(OSError):
        sys.stderr.flush()
    say_code(code)
    os._exit(code)
