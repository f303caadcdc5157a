"""`sweep advise` and `sweep freeze`."""

from collections.abc import Callable

import typer

from cudnn_sweep.orchestrator.cli import failing
from cudnn_sweep.orchestrator.cli.standing_by import UNFINISHED, stand_by
from cudnn_sweep.orchestrator.launching.step_options import (
    AdviseOptions,
    FreezeOptions,
)


def advise(options: AdviseOptions) -> None:
    """Decide for your model whether benchmark should be on, and say what that saves in your job.

    It measures until the answer is decided or the minutes are over. Its trials are stored like those of any
    launch. Without a GPU it answers from a stored measurement of this step, or times a step on the CPU.

    Exit codes: 0 there is a decision; 5 the minutes did not suffice, or there is no GPU and none was stored; 4
    the model does not run; 2 a mistake in what was typed; 1 interrupted by something else.
    """
    if options.steps is not None and options.hours is not None:
        raise typer.BadParameter("found both, allowed: one", param_hint="--steps, --hours")
    if not options.from_store:
        stand_by(lost=UNFINISHED)
    from cudnn_sweep.orchestrator.launching.advising import advise as measure_and_tell

    _run(measure_and_tell, options)


def freeze(options: FreezeOptions) -> None:
    """Keep the choice of a search as a file: with it benchmark off takes the plans that are fastest.

    It searches in several processes, times the best plans again, finds rules that ban what stands in front of
    them, and compares off, on and frozen in turns. What is frozen starts like off, does not search, and holds no
    memory for a search. The file is for this GPU model, cuDNN and PyTorch.

    Exit codes: 0 there is an answer, also that nothing is to gain; 3 with --check: other plans are taken than the
    file was made for, or it is slower than off; 4 the model does not run; 2 a mistake in what was typed, or no GPU.
    """
    stand_by(lost=UNFINISHED)
    from cudnn_sweep.orchestrator.freezing.freeze import freeze as find_and_tell

    _run(find_and_tell, options)


def _run(measure: Callable[..., int], options: AdviseOptions) -> None:
    """On this machine. Progress goes to standard error if the answer is for a program."""
    from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
    from cudnn_sweep.orchestrator.showing.say import console_here

    console = console_here(stderr=options.format != "text")
    failing.leave(measure(options, console, ThisMachine(), console_here()))
