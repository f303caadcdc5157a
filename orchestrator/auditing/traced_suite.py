"""Writes the trace of a model as tables, or as a suite that times each convolution."""

import json
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO

from rich.console import Console, Group, RenderableType
from rich.text import Text
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from cudnn_sweep.analysis.words import counted, given, percent
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.terminal.say import plain_table
from cudnn_sweep.workloads.cells.suite import ProblemSpec
from cudnn_sweep.workloads.measuring.tracing import (
    Trace,
    TracedConvolution,
    TracedOperation,
    losses_in,
)
from cudnn_sweep.workloads.problem import Shape, sizes_text

WIDTH = 100  # columns
UNBROKEN = 10_000  # columns, so that each problem stays on one line
CELL_DIRECTIONS = {"training": "forward_backward", "inference": "forward"}
WITHOUT_GPU = {
    "replicates": 2,
    "measure": {
        "warmup_s": 0.1,
        "warmup_limit_s": 0.2,
        "steady_budget_s": 0.2,
        "calibrate": False,
        "reference_replicates": 0,
    },
}
FLOP_UNITS = ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP"))
SIZES = ("stride", "padding", "dilation")
OF_BOTH = ("out_channels", "groups", "bias", "transposed")  # problems have these keys, too
NUMBERS = (*SIZES, "groups", "times", "FLOPs")
OPERATION_COLUMNS = ("number", "layer", "operation", "takes", "returns", "", "conversions_ms")
ALWAYS_SHOWN = ("name", "input → channels", "kernel", "times", "FLOPs")


def suite_text(trace: Trace, command: str) -> str:
    """Return a suite as YAML, with `command` in a comment. Raises SpecError if nothing fits."""
    kept = {name: conv for name, conv in trace.named().items() if conv.precision is not None}
    if not kept:
        dtypes = ", ".join(sorted({conv.dtype for conv in trace.convolutions}))
        raise SpecError(
            f"{trace.request.model}: all convolutions are in {dtypes}; "
            "allowed in a suite: float32, bfloat16, float16"
        )
    problems = {name: _problem(conv) for name, conv in kept.items()}
    return (
        "\n".join(_head(trace, command))
        + f"\n{yaml_text({'problems': problems}, UNBROKEN)}{yaml_text({'cells': _cells(trace, kept)})}"
        + yaml_text({"without_gpu": WITHOUT_GPU})
    )


def left_out(trace: Trace) -> list[str]:
    return [
        f"left out: {name}, because a suite has no precision for {conv.dtype}"
        for name, conv in trace.named().items()
        if conv.precision is None
    ]


def _counts_text(trace: Trace) -> str:
    return (
        f"{trace.count} convolutions, {len(trace.convolutions)} distinct, "
        f"{_flops_text(trace.flops)} in a forward pass"
    )


def _short_sizes(sizes: Shape) -> str:
    return sizes_text(sizes[:1] if len(set(sizes)) == 1 else sizes)


def _flops_text(flops: int) -> str:
    texts = (f"{given(flops / size)} {unit}" for size, unit in FLOP_UNITS if flops >= size)
    return next(texts, f"{flops} FLOP")


def _head(trace: Trace, command: str) -> list[str]:
    summary = (
        f"The convolutions of {trace.request.model} at input {sizes_text(trace.request.input)}, each timed alone: "
        f"{_counts_text(trace)}. Seen by torch {trace.torch} on {trace.device}, and written by"
    )
    return [
        *(f"# {line}" for line in textwrap.wrap(summary, WIDTH - 2, break_on_hyphens=False)),
        *(f"#     {line}" for line in command.splitlines()),
        *(f"# {line}" for line in left_out(trace)),
        "# To compare the model as is, compiled and as a CUDA graph, use only these two keys:",
        "#     configs: [{}, {execution: compile}, {execution: cuda_graph}]",
        f"#     cells: [{json.dumps(_whole(trace))}]",
    ]


def _whole(trace: Trace) -> dict[str, object]:
    asked = trace.request
    model = {"arguments": asked.arguments, "inputs": asked.inputs}
    return {
        "workload": asked.model,
        "input": sizes_text(asked.input),
        **{name: getattr(asked, name) for name in ("direction", "precision", "layout")},
        "model": {name: value for name, value in model.items() if value},
    }


def _problem(convolution: TracedConvolution) -> CommentedMap:
    spec = ProblemSpec.model_validate(
        {
            "input": sizes_text(convolution.input_shape),
            "kernel": _short_sizes(convolution.kernel_size),
            **{name: _short_sizes(getattr(convolution, name)) for name in SIZES},
            "output_padding": _short_sizes(convolution.output_padding),
            **{name: getattr(convolution, name) for name in OF_BOTH},
            "occurrences": convolution.times,
        }
    )
    written = spec.model_dump(exclude_defaults=True)
    on_a_line = CommentedMap(
        (key, int(value) if isinstance(value, str) and value.isdigit() else value)
        for key, value in written.items()
    )
    on_a_line.fa.set_flow_style()
    return on_a_line


def _cells(trace: Trace, kept: dict[str, TracedConvolution]) -> list[dict[str, object]]:
    groups: defaultdict[tuple[str | None, str], CommentedSeq] = defaultdict(CommentedSeq)
    for name, conv in kept.items():
        groups[conv.precision, conv.layout].append(name)
    for names in groups.values():
        names.fa.set_flow_style()
    return [
        {
            "workload": "conv",
            "problem": names,
            "direction": CELL_DIRECTIONS[trace.request.direction],
            "precision": precision,
            "layout": layout,
        }
        for (precision, layout), names in groups.items()
    ]


def yaml_text(part: Mapping[str, object], width: int = WIDTH) -> str:
    yaml = YAML()
    yaml.width = width
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = StringIO()
    yaml.dump(part, text)
    # ruamel leaves a blank at the end of a line if the list continues on the next line
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def trace_table(trace: Trace, console: Console) -> RenderableType:
    """Return the table of convolutions, without the column `kernel` if the console is narrow."""
    rows = [_row(trace, name, conv) for name, conv in trace.named().items()]
    same = {
        column: value
        for column, value in rows[0].items()
        if column not in ALWAYS_SHOWN and all(row[column] == value for row in rows)
    }
    is_wide = console.width >= 120
    columns = [name for name in rows[0] if name not in same and (is_wide or name != "kernel")]
    cells = [[row[column] for column in columns] for row in rows]
    in_all = ", ".join(f"{column} {value}" for column, value in same.items())
    counts = f"{_counts_text(trace)}; torch {trace.torch}, {trace.device}"
    table = plain_table(columns, cells, NUMBERS, 2 if is_wide else 1)
    in_common = [Text(f"All of them: {in_all}")] if same else []
    return Group(table, *in_common, Text(counts), *_losses(trace))


def _losses(trace: Trace) -> Iterator[RenderableType]:
    """Yield a table of the layers that lose the requested layout, and a line of sums."""
    if trace.request.layout == "contiguous":
        return
    losses, operations = losses_in(trace.operations), trace.operations
    if losses:
        columns = ["loses channels_last", "operation", "pays", *["conversions_ms"] * trace.on_gpu]
        lost = [
            _loss_row(None if number is None else operations[number], payers)
            for number, payers in losses.items()
        ]
        yield Text("")
        yield plain_table(columns, [row[: len(columns)] for row in lost], columns[3:])
    paying = sum("convolution" in payer.name for payers in losses.values() for payer in payers)
    layers = sum(number is not None for number in losses)
    spent = f"; conversions take {_ms(operations)} ms" if trace.on_gpu else ""
    yield Text(
        f"Layout {trace.request.layout}: lost by {counted(layers, 'layer')}, restored by "
        f"{counted(paying, 'convolution')}{spent}."
    )
    if not trace.on_gpu:
        yield Text("A CPU's kernels keep other layouts than a GPU's, so trace where you train.")


def _ms(operations: Iterable[TracedOperation]) -> str:
    return given(sum(operation.conversion_ms or 0 for operation in operations))


def _loss_row(lost_by: TracedOperation | None, payers: Sequence[TracedOperation]) -> list[str]:
    layers = list(dict.fromkeys(payer.layer or payer.name for payer in payers))
    more = f" and {len(layers) - 1} more" * (len(layers) > 1)
    paid = "".join(layers[:1]) + more
    if lost_by is None:
        return ["no layer", "", paid, _ms(payers)]
    others = [payer for payer in payers if payer is not lost_by]
    return [lost_by.layer or "code outside modules", lost_by.name, paid, _ms([lost_by, *others])]


def operations_table(trace: Trace) -> RenderableType:
    numbered = [(n, part) for n, part in enumerate(trace.operations) if part.takes or part.returns]
    rows = [
        [str(number), part.layer, part.name, " ".join(part.takes), " ".join(part.returns)]
        + ["loses" if part.loses else "pays" if part.pays else "", _ms([part])]
        for number, part in numbered
    ]
    return plain_table(OPERATION_COLUMNS, rows, ("number", "conversions_ms"))


def _row(trace: Trace, name: str, convolution: TracedConvolution) -> dict[str, str]:
    return {
        "name": name,
        "input → channels": f"{sizes_text(convolution.input_shape)} → {convolution.out_channels}",
        "kernel": sizes_text(convolution.kernel_size),
        **{name: _short_sizes(getattr(convolution, name)) for name in SIZES},
        "groups": str(convolution.groups),
        "layout": convolution.layout,
        "precision": convolution.precision or convolution.dtype,
        "times": str(convolution.times),
        "FLOPs": percent(trace.share(convolution), 1),
        "route": convolution.route,
    }
