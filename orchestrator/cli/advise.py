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
    """Find the settings that make a step of your model fastest, and the time that they save in your job.

    It races benchmark, layout, a CUDA graph and torch.compile in turns on one GPU, in stages, until nothing is left to
    try or the minutes are over. `--levers benchmark` decides only whether to set benchmark. The trials are stored like
    those of any launch. The same command resumes an interrupted race. Without a GPU it answers from stored
    measurements, or times a step on the CPU.
    """
    if options.steps is not None and options.hours is not None:
        raise typer.BadParameter("found both, allowed: one", param_hint="--steps, --hours")
    _run("steps.advising:advise", options, is_apart=options.json)


def freeze(options: step_options.FreezeOptions) -> None:
    """Save a search's choice in a file, so that benchmark off runs the fastest plans.

    It searches in several processes, times the best plans again, and finds rules that ban the plans before the best one
    in cuDNN's list. It compares benchmark off, on and frozen in turns. A frozen model starts as fast as with benchmark
    off, and needs neither a search nor its memory. The file is for this GPU model, cuDNN and PyTorch.
    """
    _run("freezing.freeze:freeze", options, is_apart=options.json, needs_gpu=True)


def bans(options: step_options.BansOptions) -> None:
    """Report what a ban costs: the time that a step loses if an engine that cuDNN chose is banned.

    It finds the engines that the cells take, and times each cell without and with each ban, in turns, until
    each cell is decided or the minutes are over. It prints one row for each cell and ban: the time lost, the engine in
    place of the banned one, the error against float64, and whether bits still repeat. `sweep query bans` prints these
    results again. The same command resumes an interrupted sweep.
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
    """Decide whether a change makes a step of your model slower, by measuring two commits in turns.

    Each of BASE and HEAD is a commit of your repository, a folder, a wheel, or the Python of an environment that has
    cudnn-sweep. Each process runs one side. The sides take turns on one GPU (or CPU), with A/A pairs as control.
    The answer lists what else differs, and the smallest slowdown that the gate would have found.
    """
    for option, suffix in {"comment": ".md", "junit": ".xml"}.items():
        if getattr(options, option):
            raise SpecError(f"--{option} is now --write, with a name that ends in {suffix}")
    _run("gating.gate:gate", options)


def bisect(options: step_options.BisectOptions) -> None:
    """Find which of several environments made a step slower, such as one of four versions of torch.

    Each of --pythons is an environment with cudnn-sweep. The oldest is compared with the
    newest and, if that is slower, with the middle one of the rest, and so on until the first slow
    one is known. The answer names that environment and its changes. The same command resumes, and
    skips comparisons that stored results decide.
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
    """Return the options, a console and this machine. The options' time limits begin now.

    If `is_apart`, the console writes to standard error.
    """
    if not options.measures_nothing:
        start_watchdog()
    from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
    from cudnn_sweep.orchestrator.terminal.say import console_here

    console = console_here(stderr=is_apart)
    if options.measures_nothing:
        return options, console, ThisMachine()
    place = ThisMachine.free(console, waits=options.wait, needs_gpu=needs_gpu)
    return replace(options, began=monotonic()), console, place
