"""A trace as a table: a row for each distinct convolution, and what is the same for all said once."""

from rich.console import Console, Group, RenderableType
from rich.text import Text

from cudnn_sweep.analysis.words import percent
from cudnn_sweep.orchestrator.planning.traced_suite import counts_text, short_sizes
from cudnn_sweep.orchestrator.showing.say import plain_table
from cudnn_sweep.workloads.measuring.tracing import Trace, TracedConvolution
from cudnn_sweep.workloads.problem import sizes_text

NUMBERS = ("stride", "padding", "dilation", "groups", "times", "FLOPs")
ALWAYS_SHOWN = ("name", "input → channels", "kernel", "times", "FLOPs")
WIDE = 120

Row = dict[str, str]


def trace_table(trace: Trace, console: Console) -> RenderableType:
    """Where there is less room the kernel is left to the name, and columns stand closer together."""
    rows = [_row(trace, name, each) for name, each in trace.named().items()]
    same = {
        column: value
        for column, value in rows[0].items()
        if column not in ALWAYS_SHOWN and all(row[column] == value for row in rows)
    }
    is_wide = console.width >= WIDE
    columns = [name for name in rows[0] if name not in same and (is_wide or name != "kernel")]
    cells = [[row[column] for column in columns] for row in rows]
    told = ", ".join(f"{column} {value}" for column, value in same.items())
    counts = f"{counts_text(trace)}; torch {trace.torch}, {trace.device}"
    table = plain_table(columns, cells, NUMBERS, 2 if is_wide else 1)
    return Group(table, *([Text(f"All of them: {told}")] if same else []), Text(counts))


def _row(trace: Trace, name: str, convolution: TracedConvolution) -> Row:
    return {
        "name": name,
        "input → channels": f"{sizes_text(convolution.input_shape)} → {convolution.out_channels}",
        "kernel": sizes_text(convolution.kernel_size),
        "stride": short_sizes(convolution.stride),
        "padding": short_sizes(convolution.padding),
        "dilation": short_sizes(convolution.dilation),
        "groups": str(convolution.groups),
        "layout": convolution.layout,
        "precision": convolution.precision or convolution.dtype,
        "times": str(convolution.times),
        "FLOPs": percent(trace.share(convolution), 1),
        "route": convolution.route,
    }
