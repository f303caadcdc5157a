"""What measures a step of one model: `sweep advise`, `freeze`, `bans`, `gate` and `bisect`."""

from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

import typer

from cudnn_sweep.orchestrator.cli import failing
from cudnn_sweep.orchestrator.cli.launch_file_results import open_results
from cudnn_sweep.orchestrator.cli.query import answer
from cudnn_sweep.orchestrator.cli.watchdog import start_watchdog
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.steps import step_options

if TYPE_CHECKING:
    from rich.console import Console

    from cudnn_sweep.orchestrator.running.this_machine import ThisMachine


def advise(options: step_options.AdviseOptions) -> None:
    """Decide for your model whether benchmark should be on, and say what that saves in your job.

    It measures until the answer is decided or the minutes are over. Its trials are stored like those of any
    launch. Without a GPU it answers from a stored measurement of this step, or times a step on the CPU.
    """
    if options.steps is not None and options.hours is not None:
        raise typer.BadParameter("found both, allowed: one", param_hint="--steps, --hours")
    if not options.measures_nothing:
        start_watchdog()
    from cudnn_sweep.orchestrator.steps.advising import advise as measure_and_tell

    _run(measure_and_tell, options, is_apart=options.json)


def freeze(options: step_options.FreezeOptions) -> None:
    """Save a search's choice in a file, with which benchmark off takes the fastest plans.

    It searches in several processes, times the best plans again, and finds rules that ban the plans
    in front of them. It compares off, on and frozen in turns. A frozen model starts as fast as with
    off, and needs no search nor memory for it. The file is for this GPU model, cuDNN and PyTorch.
    """
    start_watchdog()
    from cudnn_sweep.orchestrator.freezing.freeze import freeze as find_and_tell

    _run(find_and_tell, options, is_apart=options.json, needs_gpu=True)


def bans(options: step_options.BansOptions) -> None:
    """Tell the price of a ban: what a step loses without each engine that cuDNN takes for it.

    It looks which engines the cells take, bans one after another in turns with none banned, until each cell is
    decided or the minutes are over, and shows which cells lose, by how much, what takes the engine's place, the
    error against float64, and whether bits still repeat. `sweep query bans` asks that again. The same command
    resumes a sweep that was cut.
    """
    start_watchdog()
    from cudnn_sweep.analysis.engine.queries import load_query
    from cudnn_sweep.orchestrator.freezing.bans import bans as ban_and_measure

    def measure_and_tell(
        options: step_options.BansOptions, console: "Console", place: "ThisMachine", out: object
    ) -> ExitCode:
        ran = ban_and_measure(options, console, place)
        if ran is not None and ran.stored:
            asked = ["--sweep-id", ran.session.sweep_id, "--min-effect", str(options.min_effect)]
            stored = open_results([ran.store.location])
            answer(stored, load_query("bans"), asked, "json" if options.json else "table")
        return ExitCode.FINE if ran is None else ran.exit_code

    _run(measure_and_tell, options, is_apart=True, needs_gpu=True)


def gate(options: step_options.GateOptions) -> None:
    """Decide whether a change makes a step of your model slower, by measuring two commits in turns.

    BASE and HEAD are commits of your repository, folders, wheels, or Pythons of two environments with cudnn-sweep.
    Each process runs one side. The sides take turns on one GPU (or CPU), with A/A pairs as control.
    The answer lists what else differs, and the smallest slowdown that the gate would have found.
    """
    start_watchdog()
    from cudnn_sweep.orchestrator.gating.gate import gate as measure_and_tell

    _run(measure_and_tell, options, is_apart=True)


def bisect(options: step_options.BisectOptions) -> None:
    """Find which of several environments made a step slower, such as one of four versions of torch.

    Each of --pythons is an environment with cudnn-sweep. The newest takes turns with the oldest
    until the pair is decided. If the newest is slower, the middle one of the rest follows, until
    the first slow one is known. The answer names that environment and its changes. The same command
    resumes: it does not measure pairs again that are decided in the results.
    """
    start_watchdog()
    from cudnn_sweep.orchestrator.gating.bisect import bisect as measure_and_tell

    _run(measure_and_tell, options, is_apart=True)


def _run(
    measure: Callable[..., int],
    options: step_options.StepOptions,
    *,
    is_apart: bool,
    needs_gpu: bool = False,
) -> None:
    """Measure on this machine once its device is free; time limits count from then. `is_apart`:
    print progress on standard error, because a program reads the answer.
    """
    from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
    from cudnn_sweep.orchestrator.terminal.say import console_here

    console, place = console_here(stderr=is_apart), ThisMachine()
    if not options.measures_nothing:
        place = ThisMachine.free(console, waits=options.wait, needs_gpu=needs_gpu)
        options = replace(options, began=monotonic())
    failing.leave(measure(options, console, place, console_here()))
