"""`sweep advise` and `sweep try`."""

from typing import Annotated

import typer

from cudnn_sweep.orchestrator.cli import failing
from cudnn_sweep.orchestrator.cli.standing_by import UNFINISHED, stand_by
from cudnn_sweep.orchestrator.launching.step_options import AdviseOptions, StepOptions


def advise(options: AdviseOptions) -> None:
    """Decide for your model whether benchmark should be on, and say what that saves in your job.

    It measures until the answer is decided or the minutes are over. Its trials are stored like those of any
    launch. Without a GPU it answers from a stored measurement of this step, or says how to measure.

    Exit codes: 0 there is a decision; 5 the minutes did not suffice, or there is no GPU and none was stored; 4
    the model does not run; 2 a mistake in what was typed; 1 interrupted by something else.
    """
    if options.steps is not None and options.hours is not None:
        raise typer.BadParameter("found both, allowed: one", param_hint="--steps, --hours")
    if not options.from_store:
        stand_by(lost=UNFINISHED)
    from cudnn_sweep.orchestrator.launching.advising import advise as measure_and_tell
    from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
    from cudnn_sweep.orchestrator.showing.say import console_here

    console = console_here(stderr=options.format != "text")
    failing.leave(measure_and_tell(options, console, ThisMachine(), console_here()))


def try_(options: StepOptions, json: Annotated[bool, "Print the answer as JSON."] = False) -> None:
    """Measure a step of your model with benchmark off and on, on this machine, in two minutes.

    `sweep advise` says more: what that saves in a job of so many steps. Its trials are stored like those of any
    launch. Exit codes are those of `sweep launch`.
    """
    stand_by(lost=UNFINISHED)
    from cudnn_sweep.orchestrator.launching.trying import try_step
    from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
    from cudnn_sweep.orchestrator.showing.say import console_here

    out = console_here() if json else None
    failing.leave(try_step(options, console_here(stderr=json), ThisMachine(), out))
