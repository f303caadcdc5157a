"""`sweep try`."""

from time import monotonic
from typing import Annotated

import typer

from cudnn_sweep.orchestrator.cli.model_arguments import (
    ArgumentOption,
    DirectionOption,
    InputOption,
    InputsOption,
    LayoutOption,
    LossOption,
    ModelArgument,
    PrecisionOption,
    StepResultsOption,
    step_options,
)


def try_(
    workload: ModelArgument,
    input: InputOption = None,
    argument: ArgumentOption = None,
    inputs: InputsOption = None,
    loss: LossOption = None,
    precision: PrecisionOption = "tf32",
    layout: LayoutOption = "contiguous",
    direction: DirectionOption = None,
    results: StepResultsOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Measure a step of your model with benchmark off and on, on this machine, in two minutes.

    `sweep advise` says more: what that saves in a job of so many steps. Its trials are stored like those of any
    launch. Exit codes are those of `sweep launch`.
    """
    began = monotonic()
    from cudnn_sweep.orchestrator.cli.failing import leave
    from cudnn_sweep.orchestrator.cli.standing_by import UNFINISHED, stand_by

    stand_by(lost=UNFINISHED)
    from cudnn_sweep.orchestrator.launching.trying import try_step
    from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
    from cudnn_sweep.orchestrator.showing.say import console_here

    options = step_options(
        workload,
        input=input or (),
        argument=argument,
        inputs=inputs,
        loss=loss,
        precision=precision,
        layout=layout,
        direction=direction,
        results=results,
        began=began,
    )
    out = console_here() if json else None
    leave(try_step(options, console_here(stderr=json), ThisMachine(), out))
