"""Arguments and options of the commands that time a model; `--argument NAME=VALUE` is read here."""

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cudnn_sweep.orchestrator.cli.launch_file_results import results_of_the_launch_file
from cudnn_sweep.orchestrator.cli.program import program

if TYPE_CHECKING:
    from pydantic import JsonValue

    from cudnn_sweep.orchestrator.launching.one_step import StepOptions

ArgumentOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Keyword argument of the class or function: JSON or plain text. Repeat for more.",
    ),
]

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="file.py:name or package.module:name of an nn.Module class, a function that "
        "returns a module, a module, or a @workload.",
    ),
]
InputOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SIZES",
        help="Input sizes, such as 8x3x512x512. Repeat for sizes that come equally often.",
    ),
]
InputsOption = Annotated[
    str | None,
    typer.Option(
        metavar="YAML",
        help="Arguments of the model, if not one float tensor of --input: "
        r"'{input_ids: {shape: \[batch, length], dtype: int64, below: 30522}}', a list for positional "
        "arguments, or a function of your own as file.py:name.",
    ),
]
LossOption = Annotated[
    str | None,
    typer.Option(
        help="mean_square, cross_entropy, own (the model returns it), or a loss of your own as "
        "file.py:name."
    ),
]
PrecisionOption = Annotated[str, typer.Option(help="fp32, tf32, bf16, fp16, amp_bf16 or amp_fp16.")]
LayoutOption = Annotated[str, typer.Option(help="contiguous or channels_last.")]
DirectionOption = Annotated[
    str | None, typer.Option(help="Of a model: training (the default) or inference.")
]
StepResultsOption = Annotated[
    str | None,
    typer.Option("--results", help="Folder or URL; overrides ./cluster.yaml (./results)."),
]


def step_options(
    workload: str,
    *,
    input: Sequence[str],
    argument: Sequence[str] | None,
    inputs: str | None,
    loss: str | None,
    precision: str,
    layout: str,
    direction: str | None,
    results: str | None,
    began: float,
    regime: str | None = None,
    shapes: str | None = None,
) -> "StepOptions":
    """As they were typed."""
    from cudnn_sweep.orchestrator.launching.one_step import StepOptions

    return StepOptions(
        workload=workload,
        input=tuple(input),
        inputs=inputs,
        arguments=read_arguments(argument),
        loss=loss,
        regime=regime,
        shapes=shapes,
        precision=precision,
        layout=layout,
        direction=direction,
        results=results or results_of_the_launch_file(),
        typed_results=results,
        program=program(),
        began=began,
    )


def read_arguments(texts: Sequence[str] | None) -> dict[str, "JsonValue"]:
    return dict(map(_read, texts or ()))


def _read(text: str) -> tuple[str, "JsonValue"]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise typer.BadParameter(f"found {text!r}, allowed: NAME=VALUE", param_hint="--argument")
    try:
        found = json.loads(value)
    except RecursionError:
        found = math.nan
    except ValueError:
        return name, value
    try:
        json.dumps(found, allow_nan=False)
    except ValueError:
        told = f"found {text[:60]!r}, allowed: finite numbers, in lists that are not too deep"
        raise typer.BadParameter(told, param_hint="--argument") from None
    return name, found
