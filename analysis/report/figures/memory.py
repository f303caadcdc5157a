"""What speed costs in memory."""

import altair as alt

from cudnn_sweep.analysis.report.figures.figure import (
    Drawing,
    Figure,
    chart,
    ratios,
    styled,
    verdict_marks,
)
from cudnn_sweep.analysis.report.figures.palette import Palette


@chart(place=50)
def memory(palette: Palette, min_effect: float) -> Figure:
    return Figure(
        name="memory",
        title="Memory against speed",
        about="Each cell's peak of reserved device memory, candidate / baseline, against its time "
        "ratio: a mark above 1 needs more memory, one left of 1 is faster.",
        table="verdicts",
        needs=("ratio", "memory_ratio"),
        columns=(
            "label",
            "memory_ratio",
            "baseline_peak_reserved_bytes",
            "candidate_peak_reserved_bytes",
            "ratio",
            "verdict",
        ),
        half=True,
        drawings={"wide": styled(_of_memory(palette), palette)},
    )


def _of_memory(palette: Palette) -> Drawing:
    x = ratios("x", "ratio", "time, candidate / baseline")
    y = ratios("y", "memory_ratio", "peak memory, candidate / baseline")
    ones = alt.Chart(alt.InlineData(values=[{"ratio": 1, "memory_ratio": 1}]))
    marks = verdict_marks(palette, 80).encode(x=x, y=y)
    lines = ones.mark_rule(color=palette.quiet, strokeDash=[3, 3])
    return alt.layer(lines.encode(x=x), lines.encode(y=y), marks)
