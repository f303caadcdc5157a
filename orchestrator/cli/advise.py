"""Commands that measure a step of a model: `sweep advise`, `freeze`, `bans`, `gate`, `bisect`."""

from dataclasses import replace
from pkgutil import resolve_name
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

import typer

from cudnn_sweep.orchestrator.cli import failing
from cudnn_sweep.orchestrator.cli.commands import echo
from cudnn_sweep.orchestrator.cli.query import deliver
from cudnn_sweep.orchestrator.cli.watchdog import start_watchdog
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.steps import step_options

if TYPE_CHECKING:
    from rich.console import Console

    from cudnn_sweep.orchestrator.running.this_machine import ThisMachine

Options = TypeVar("Options", bound=step_options.AdviseOptions | step_options.TurnOptions)


def advise(options: step_options.AdviseOptions) -> None:
    """Find the settings with which your job takes the least time, and the time that they save.

    The command compares benchmark mode, layouts, CUDA graphs and torch.compile on one GPU. If the
    time limit (--minutes) ends the race early, the same command resumes it. Without a GPU it uses
    stored measurements or times a step on the CPU.
    """
    if options.steps is not None and options.hours is not None:
        raise typer.BadParameter("found both, allowed: one", param_hint="--steps, --hours")
    _run("steps.advising:advise", options, is_apart=options.json)


def freeze(options: step_options.FreezeOptions) -> None:
    """Save cuDNN's fastest plans in a file, so that your model runs them without a search.

    The file has rules that ban slower plans. It is written only if the rules save time, compared
    with benchmark off. It is valid for this GPU model and these versions of cuDNN and PyTorch.
    """
    _run("freezing.freeze:freeze", options, is_apart=options.json, needs_gpu=True)


def bans(options: step_options.BansOptions) -> None:
    """Report how much time a step loses if an engine that cuDNN chose is banned.

    The command times each cell without bans and with each of its engines banned. It prints a row
    for each cell and ban. If the time limit (--minutes) ends the sweep early, the same command
    resumes it. `sweep query bans` prints the results again.
    """
    options, console, place = _begun(options, is_apart=True, needs_gpu=True)
    from cudnn_sweep.orchestrator.freezing import bans as banning
    from cudnn_sweep.orchestrator.steps.sequence import reported, shown_and_written

    with reported(options.write, "bans", options.workload):
        found, rows, marked = banning.answered(options, banning.bans(options, console, place))

    def show() -> None:
        deliver(rows, "json" if options.json else "table", None, marked)
        echo("\n".join([found.headline, *(text for (text,) in found.sections[1].notes)]), err=True)

    failing.leave(shown_and_written(show, found, options.write, console))


def gate(options: step_options.GateOptions) -> None:
    """Decide whether a code change makes a step of your model slower.

    BASE and HEAD can each be a commit, a folder, a wheel, or the Python of an environment that has
    cudnn-sweep. The command measures both in turns on one GPU or on the CPU. It also reports how
    small a slowdown it can find.
    """
    for option, suffix in {"comment": ".md", "junit": ".xml"}.items():
        if getattr(options, option):
            raise SpecError(f"--{option} was replaced by --write FILE, where FILE ends in {suffix}")
    _run("gating.gate:gate", options)


def bisect(options: step_options.BisectOptions) -> None:
    """Find the first of several environments, such as versions of torch, in which a step is slower.

    Each of --pythons is an environment that has cudnn-sweep, from the oldest to the newest. The
    command also lists the versions that changed. The same command resumes an unfinished search.
    """
    _run("gating.bisect:bisect", options)


def _run(command: str, options: Options, *, is_apart: bool = True, needs_gpu: bool = False) -> None:
    begun = _begun(options, is_apart=is_apart, needs_gpu=needs_gpu)
    from cudnn_sweep.orchestrator.steps.sequence import answer_step
    from cudnn_sweep.orchestrator.terminal.say import console_here

    measure = resolve_name(f"cudnn_sweep.orchestrator.{command}")
    failing.leave(answer_step(measure, *begun, console_here()))


def _begun(
    options: Options, *, is_apart: bool, needs_gpu: bool
) -> tuple[Options, "Console", "ThisMachine"]:
    """Return options whose time starts now, a console (on stderr if `is_apart`) and a machine."""
    if not options.measures_nothing:
        start_watchdog()
    from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
    from cudnn_sweep.orchestrator.terminal.say import console_here

    console = console_here(stderr=is_apart)
    if options.measures_nothing:
        return options, console, ThisMachine()
    place = ThisMachine.free(console, waits=options.wait, needs_gpu=needs_gpu)
    return replace(options, began=monotonic()), console, place
