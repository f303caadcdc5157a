"""What speed costs in memory."""

import altair as alt

from cudnn_sweep.analysis.report.figures.figure import (
    CELL,
    ROWS,
    VERDICT,
    Column,
    Drawing,
    Figure,
    chart,
    ratio_ticks,
    styled,
    verdict_colour,
    verdict_shape,
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
            CELL,
            Column(field="memory_ratio", title="memory ratio", kind="ratio"),
            Column(field="baseline_peak_mib", title="baseline MiB"),
            Column(field="candidate_peak_mib", title="candidate MiB"),
            Column(field="ratio", title="time ratio", kind="ratio"),
            VERDICT,
        ),
        half=True,
        drawings={"wide": styled(_points(palette), palette)},
    )


def _points(palette: Palette) -> Drawing:
    x_axis = alt.Axis(format="~g", values=ratio_ticks("x"), labelOverlap="greedy")
    y_axis = alt.Axis(format="~g", values=ratio_ticks("y"), labelOverlap="greedy")
    scale = alt.Scale(type="log", nice=False, padding=16)
    x = alt.X("ratio:Q", scale=scale, axis=x_axis, title="time, candidate / baseline")
    y = alt.Y("memory_ratio:Q", scale=scale, axis=y_axis, title="peak memory, candidate / baseline")
    ones = alt.Chart(alt.InlineData(values=[{"ratio": 1, "memory_ratio": 1}]))
    marks = (
        alt.Chart(ROWS)
        .mark_point(filled=True, size=80, opacity=0.85, cursor="pointer")
        .encode(
            x=x,
            y=y,
            color=verdict_colour(palette),
            shape=verdict_shape(),
            tooltip="label:N",
            description="label:N",
        )
    )
    lines = ones.mark_rule(color=palette.quiet, strokeDash=[3, 3])
    return alt.layer(lines.encode(x=x), lines.encode(y=y), marks)
