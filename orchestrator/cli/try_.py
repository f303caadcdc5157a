"""`sweep try`."""

from typing import Annotated

import typer

from cudnn_sweep.orchestrator.cli.launch_file_results import results_of_the_launch_file
from cudnn_sweep.orchestrator.cli.model_arguments import ArgumentOption, read_arguments
from cudnn_sweep.orchestrator.cli.program import program


def try_(
    workload: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="file.py:name or package.module:name of an nn.Module class, a function that "
            "returns a module, a module, or a @workload.",
        ),
    ],
    input: Annotated[
        str | None,
        typer.Option(metavar="SIZES", help="Input sizes of a model, such as 8x3x512x512."),
    ] = None,
    argument: ArgumentOption = None,
    inputs: Annotated[
        str | None,
        typer.Option(
            metavar="YAML",
            help="Arguments of the model, if not one float tensor of --input: "
            r"'{input_ids: {shape: \[batch, length], dtype: int64, below: 30522}}', a list for positional "
            "arguments, or a function of your own as file.py:name.",
        ),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            help="mean_square, cross_entropy, own (the model returns it), or a loss of your own as "
            "file.py:name."
        ),
    ] = None,
    precision: Annotated[
        str, typer.Option(help="fp32, tf32, bf16, fp16, amp_bf16 or amp_fp16.")
    ] = "tf32",
    layout: Annotated[str, typer.Option(help="contiguous or channels_last.")] = "contiguous",
    direction: Annotated[
        str | None, typer.Option(help="Of a model: training (the default) or inference.")
    ] = None,
    results: Annotated[
        str | None,
        typer.Option(help="Folder or URL; overrides ./cluster.yaml (./results)."),
    ] = None,
) -> None:
    """Measure a step of your model with benchmark off and on, on this machine, in two minutes.

    Its trials are stored like those of any launch. Exit codes are those of `sweep launch`.
    """
    from cudnn_sweep.orchestrator.cli.failing import leave
    from cudnn_sweep.orchestrator.cli.standing_by import UNFINISHED, stand_by

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
