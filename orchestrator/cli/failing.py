"""Ends commands: turns an error from any part of the program into a message and an exit code."""

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

AGAIN_S = 0.1  # by then the finalizer that swallowed an interrupt has ended
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
    """End with an exit code if the `with` block raises. SIGTERM, which schedulers send, acts like Ctrl-C."""
    code = ExitCode.INTERRUPTED
    for stream in (sys.stdout, sys.stderr):  # a file name may not be UTF-8
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    def terminate(number: int, frame: object) -> NoReturn:
        nonlocal code  # kept here: Tune replaces a KeyboardInterrupt by its own
        code = ExitCode.TERMINATED
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `timeout` sends it twice
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, terminate)
    if signal.getsignal(signal.SIGINT) is early.end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with _no_interrupt_dropped():
            try:
                yield
            finally:  # so that a failed write to standard output is an error here, not later
                print(end="", flush=True)
    except (typer.Exit, CLICK_EXCEPTION):  # Typer shows these
        raise
    except (KeyboardInterrupt, typer.Abort):
        _print(f"sweep: interrupted; {KEPT}")
        leave(code)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # Python would exit with 1: WORSE
        text, ends_with = _ending(error)
        _print(text)
        if _came_of(error, KeyboardInterrupt):  # Ctrl-C also ended parts that a normal exit needs
            leave(code)
        if is_watched():  # Ray Tune may have run here
            leave(ends_with)
        raise typer.Exit(ends_with) from None


def _ending(error: BaseException) -> tuple[str, int]:
    if isinstance(error, MISTAKES):
        return f"sweep: {error}", exit_code_of(error)
    is_exit = isinstance(error, SystemExit)  # Rich raises it for a broken pipe, too
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
    """Return whether standard output fails. If so, redirect it, or Python's exit would fail too."""
    try:
        print(flush=True)  # the failed bytes may have left the buffer
    except OSError:
        with suppress(OSError):  # inside another program standard output may have no descriptor
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
    """Repeat a Ctrl-C that comes in a finalizer or a fork() hook, where Python drops exceptions."""
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
    """End this process at once. At a normal exit DuckDB's bindings would print 40 lines about the
    reference cycles that Ray Tune leaves.
    """
    print(end="", flush=True)
    database = sys.modules.get("cudnn_sweep.analysis.engine.database")
    if database is not None:
        database.close_idle()  # removes its temporary folder
    with suppress(OSError):
        sys.stderr.flush()
    say_code(code)
    os._exit(code)
