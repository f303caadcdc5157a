"""What precision costs in time, and buys in error."""

import altair as alt

from cudnn_sweep.analysis.report.figures.figure import (
    CELL,
    CONFIG,
    ROWS,
    Column,
    Drawing,
    Figure,
    chart,
    ratio_ticks,
    styled,
)
from cudnn_sweep.analysis.report.figures.palette import Palette


@chart(place=80)
def precision(palette: Palette, min_effect: float) -> Figure:
    return Figure(
        name="precision",
        title="Precision against error",
        about="Time of an iteration over that of the most exact precision measured, against the "
        "relative L2 error of what it computes from float64. A line joins the precisions of one "
        "workload under one config: down is faster, left is closer.",
        table="precisions",
        needs=("relative_l2_error", "ratio"),
        columns=(
            CELL,
            CONFIG,
            Column(field="precision", title="precision", kind="text"),
            Column(field="relative_l2_error", title="relative L2 error"),
            Column(field="ratio", title="time ratio", kind="ratio"),
            Column(field="ratio_low", title="low", kind="ratio"),
            Column(field="ratio_high", title="high", kind="ratio"),
            Column(field="ms", title="ms an iteration"),
        ),
        half=True,
        drawings={"wide": styled(_points(palette), palette)},
    )


def _points(palette: Palette) -> Drawing:
    base = (
        alt.Chart(ROWS)
        .transform_filter("datum.relative_l2_error > 0")
        .encode(
            x=alt.X(
                "relative_l2_error:Q",
                scale=alt.Scale(type="log", nice=False, padding=20),
                axis=alt.Axis(format=".0e", tickCount=5, labelOverlap="greedy"),
                title="relative L2 error",
            ),
            y=alt.Y(
                "ratio:Q",
                scale=alt.Scale(type="log", nice=False, padding=14),
                axis=alt.Axis(format="~g", values=ratio_ticks("y"), labelOverlap="greedy"),
                title="time ratio",
            ),
            tooltip="label:N",
        )
    )
    lines = base.mark_line(strokeWidth=1, color=palette.quiet, opacity=0.5).encode(
        detail="family:N", order="relative_l2_error:Q"
    )
    points = base.mark_point(size=60, strokeWidth=2, cursor="pointer").encode(
        color=alt.Color("precision:N", scale=alt.Scale(range=palette.categories), title=None),
        shape=alt.Shape("precision:N", title=None),
        description="label:N",
    )
    return alt.layer(lines, points)
