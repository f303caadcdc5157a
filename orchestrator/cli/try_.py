"""`sweep try`."""

from typing import Annotated

import typer

from cudnn_sweep.orchestrator.cli.launch_file_results import results_of_the_launch_file
from cudnn_sweep.orchestrator.cli.model_arguments import (
    ArgumentOption,
    DirectionOption,
    InputsOption,
    LayoutOption,
    LossOption,
    ModelArgument,
    PrecisionOption,
    StepResultsOption,
    read_arguments,
)
from cudnn_sweep.orchestrator.cli.program import program


def try_(
    workload: ModelArgument,
    input: Annotated[
        str | None,
        typer.Option(metavar="SIZES", help="Input sizes of a model, such as 8x3x512x512."),
    ] = None,
    argument: ArgumentOption = None,
    inputs: InputsOption = None,
    loss: LossOption = None,
    precision: PrecisionOption = "tf32",
    layout: LayoutOption = "contiguous",
    direction: DirectionOption = None,
    results: StepResultsOption = None,
) -> None:
    """Measure a step of your model with benchmark off and on, on this machine, in two minutes.

    `sweep advise` says more: what that saves in a job of so many steps. Its trials are stored like those of any
    launch. Exit codes are those of `sweep launch`.
    """
    from cudnn_sweep.orchestrator.cli.failing import leave
    from cudnn_sweep.orchestrator.cli.standing_by import UNFINISHED, stand_by

    stand_by(lost=UNFINISHED)
    from cudnn_sweep.orchestrator.launching.one_step import StepOptions
    from cudnn_sweep.orchestrator.launching.trying import try_step
    from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
    from cudnn_sweep.orchestrator.showing.say import console_here

    options = StepOptions(
        workload=workload,
        input=() if input is None else (input,),
        inputs=inputs,
        arguments=read_arguments(argument),
        loss=loss,
        precision=precision,
        layout=layout,
        direction=direction,
        results=results or results_of_the_launch_file(),
        typed_results=results,
        program=program(),
    )
    leave(try_step(options, console_here(), ThisMachine()))
