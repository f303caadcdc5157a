"""What the first calls cost, by how many shapes there are."""

import altair as alt

from cudnn_sweep.analysis.report.figures.figure import (
    CELL,
    CONFIG,
    ROWS,
    TICKS,
    Column,
    Drawing,
    Figure,
    styled,
)
from cudnn_sweep.analysis.report.figures.palette import Palette


def figure(palette: Palette) -> Figure:
    return Figure(
        name="cold_cost",
        title="Cold cost by number of shapes",
        about="Seconds that the first calls of all distinct shapes took, median over processes, by "
        "config and by the state of CUDA's cache of compiled kernels. A line joins the regimes of "
        "one workload.",
        empty="No cold cost is known.",
        table="cold_costs",
        needs=("cold_s", "shapes"),
        columns=(
            CELL,
            CONFIG,
            Column(field="compute_cache", title="compute cache", kind="text"),
            Column(field="shapes", title="shapes"),
            Column(field="cold_s", title="cold s"),
        ),
        half=True,
        drawings={"wide": styled(_points(palette), palette)},
    )


def _points(palette: Palette) -> Drawing:
    integers = alt.Axis(
        format="d", grid=False, values=[1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256]
    )
    x = alt.X(
        "shapes:Q",
        scale=alt.Scale(type="log", nice=False, padding=20),
        axis=integers,
        title="distinct shapes",
    )
    y = alt.Y(
        "cold_s:Q",
        scale=alt.Scale(type="log", padding=14, nice=False),
        axis=alt.Axis(format="~g", values=TICKS, labelOverlap="greedy"),
        title="seconds",
    )
    base = alt.Chart(ROWS).encode(
        x=x,
        y=y,
        color=alt.Color("config:N", scale=alt.Scale(range=palette.categories), title=None),
        tooltip="label:N",
    )
    lines = base.mark_line(strokeWidth=1, opacity=0.45).encode(
        detail=["row_label:N", "compute_cache:N"]
    )
    points = base.mark_point(size=60, strokeWidth=2, cursor="pointer").encode(
        shape=alt.Shape("compute_cache:N", title=None), description="label:N"
    )
    return alt.layer(lines, points).properties(width="container", height=300)
