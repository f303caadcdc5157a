"""The command `sweep trace`."""

import json as json_format
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cudnn_sweep.orchestrator.cli.commands import echo
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.spelling import POSITIONAL, program, words_of
from cudnn_sweep.orchestrator.steps.step_options import StepOptions
from cudnn_sweep.orchestrator.terminal.write_whole import write_whole

if TYPE_CHECKING:
    from cudnn_sweep.workloads.measuring.tracing import Trace, TraceRequest


@dataclass(frozen=True, kw_only=True)
class TraceOptions(StepOptions):
    workload: Annotated[
        str,
        POSITIONAL,
        "MODEL",
        "Model to trace: package.module:name or file.py:name. The name refers to an nn.Module, a "
        "subclass of nn.Module, or a function that returns a module.",
    ]
    # this option is required
    input: Annotated[Sequence[str], "SIZES", "Input sizes, such as 8x3x512x512."] = field()
    loss: None = None  # `trace` lacks this option and the next two
    expect: None = None
    results: None = None
    direction: Annotated[
        Literal["training", "inference"], "Mode of the model. The suite times the same mode."
    ] = "training"
    output: Annotated[
        Path | None, "FILE.yaml", "File of the suite. Default: NAME.yaml in this folder."
    ] = None
    force: Annotated[bool, "Overwrite the suite's file if it exists."] = False
    list_only: Annotated[bool, "List the convolutions, but write no suite."] = False
    operations: Annotated[
        bool, "Also list operations on tensors, and which of them lose or convert the layout."
    ] = False
    json: Annotated[bool, "Print the list as JSON. The suite is still written."] = False


def trace(options: TraceOptions) -> None:
    """List the convolutions that your model runs, and write a suite of them.

    The model runs forward once with random inputs, in a separate process. A convolution's route is
    the backend that torch selects for it.
    """
    from cudnn_sweep.orchestrator.auditing.traced_suite import suite_text
    from cudnn_sweep.orchestrator.process.client import ForkServer
    from cudnn_sweep.orchestrator.process.client import trace as trace_with

    request = _request(options)
    file = None if options.list_only else _suite_file(options)
    # only a separate process imports the user's code and uses the GPU
    with ForkServer(survey_only=True) as server:
        found = trace_with(server, request)
    words = words_of(options, without=("output", "force", "list_only", "operations", "json"))
    text = suite_text(found, shlex.join(["sweep", "trace", *words])) if file else ""
    _show(found, options.json, options.operations)
    if file:
        write_whole(file, text)
        next_step = shlex.join([program(), "launch", str(file)])
        echo(f"Wrote {file}. Next: {next_step}", err=options.json)


def _request(options: TraceOptions) -> "TraceRequest":
    from cudnn_sweep.orchestrator.steps.typed_inputs import one_input, read_inputs
    from cudnn_sweep.workloads.layout import check_layout
    from cudnn_sweep.workloads.measuring.tracing import TraceRequest
    from cudnn_sweep.workloads.models.inputs import as_json
    from cudnn_sweep.workloads.precision import find_precision

    place, _, name = options.workload.rpartition(":")
    if not place or not name:
        raise typer.BadParameter(
            f"found {options.workload!r}, allowed: package.module:name or file.py:name",
            param_hint="MODEL",
        )
    return TraceRequest(
        model=options.workload,
        input=one_input(options.input) or (),
        inputs=as_json(read_inputs(options.inputs)),
        arguments=options.arguments,
        precision=find_precision(options.precision).name,
        layout=check_layout(options.layout),
        direction=options.direction,
    )


def _suite_file(options: TraceOptions) -> Path:
    """Return the path for the suite. Raises SpecError if it exists or is not a YAML file."""
    file = options.output or Path(f"{options.workload.rpartition(':')[2]}.yaml")
    if file.suffix not in (".yaml", ".yml"):
        raise SpecError(f"--output {file}: the name of a suite's file must end in .yaml")
    if file.exists() and not options.force:
        raise SpecError(
            f"{file} exists; choose another with --output, or overwrite it with --force"
        )
    return file


def _show(found: "Trace", json: bool, operations: bool) -> None:
    from cudnn_sweep.orchestrator.auditing import traced_suite
    from cudnn_sweep.orchestrator.terminal.say import console_here

    if json:
        typer.echo(json_format.dumps(_as_json(found), indent=2))
    else:
        console = console_here()
        console.print(traced_suite.trace_table(found, console))
        if operations:
            console.print(traced_suite.operations_table(found))
    for line in traced_suite.left_out(found):
        echo(f"warning: {line}", err=True)


def _as_json(found: "Trace") -> dict[str, object]:
    convolutions = [
        {
            "name": name,
            "out_channels": each.out_channels,
            **asdict(each),
            "flops_share": found.share(each),
        }
        for name, each in found.named().items()
    ]
    totals = {"count": found.count, "distinct": len(convolutions), "flops": found.flops}
    return {**asdict(found), **totals, "convolutions": convolutions}
