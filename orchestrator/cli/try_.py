"""`sweep try`."""

from typing import Annotated

import typer

from cudnn_sweep.orchestrator.cli.launch_file_results import results_of_the_launch_file
from cudnn_sweep.orchestrator.cli.model_arguments import ArgumentOption, read_arguments
from cudnn_sweep.orchestrator.cli.program import program

UNFINISHED = 1  # exit code


def try_(
    workload: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="file.py:name or package.module:name of an nn.Module class, of a function that "
            "returns a module, of a module, or of a @workload.",
        ),
    ],
    input: Annotated[
        str | None, typer.Option(metavar="SIZES", help="Of a model: as 8x3x512x512.")
    ] = None,
    argument: ArgumentOption = None,
    inputs: Annotated[
        str | None,
        typer.Option(
            metavar="YAML",
            help="What the model is called with, if not one float tensor of --input: "
            "'{input_ids: {shape: [batch, length], dtype: int64, below: 30522}}', a list for arguments "
            "in order, or a function of yours as file.py:name.",
        ),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            help="mean_square, cross_entropy, own (which the model returns), or one of yours as "
            "file.py:name."
        ),
    ] = None,
    precision: Annotated[
        str, typer.Option(help="fp32, tf32, bf16, fp16, amp_bf16 or amp_fp16.")
    ] = "tf32",
    layout: Annotated[str, typer.Option(help="contiguous or channels_last.")] = "contiguous",
    direction: Annotated[
        str | None, typer.Option(help="Of a model: training (if none is named) or inference.")
    ] = None,
    results: Annotated[
        str | None,
        typer.Option(help="Folder or URL, in place of what ./cluster.yaml says (./results)."),
    ] = None,
) -> None:
    """Measure a step of a model of yours with benchmark off and on, on this machine, in two minutes.

    Its trials are stored like those of any launch. Exit codes are those of `sweep launch`.
    """
    from cudnn_sweep.orchestrator.cli.failing import leave
    from cudnn_sweep.orchestrator.cli.standing_by import stand_by

    stand_by(lost=UNFINISHED)
    from cudnn_sweep.orchestrator.launching.trying import TryOptions, try_step
    from cudnn_sweep.orchestrator.running.this_machine import ThisMachine
    from cudnn_sweep.orchestrator.showing.say import console_here

    options = TryOptions(
        workload=workload,
        input=input,
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
