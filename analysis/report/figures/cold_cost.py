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
    chart,
    styled,
)
from cudnn_sweep.analysis.report.figures.palette import Palette

SHAPES = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256]
STATES = ["empty", "warm", "disabled", "none"]
ASIDE = 1.06


@chart(place=60)
def cold_cost(palette: Palette, min_effect: float) -> Figure:
    return Figure(
        name="cold_cost",
        title="Cold cost by number of shapes",
        about="Seconds that the first calls of all distinct shapes took, median over processes, by "
        "config and by the state of CUDA's cache of compiled kernels. A line joins the regimes of "
        "one workload. Where there are too many cells for that, marks are medians over cells, and "
        "lines reach from the first to the third quartile.",
        table="cold_costs",
        needs=("cold_s", "shapes"),
        compares="shapes",
        columns=(
            CELL,
            CONFIG,
            Column(field="compute_cache", title="compute cache", kind="text"),
            Column(field="shapes", title="shapes"),
            Column(field="cold_s", title="cold s"),
        ),
        half=True,
        drawings={
            "wide": styled(_points(palette), palette),
            "dense": styled(_quartiles(palette), palette),
        },
    )


def _points(palette: Palette) -> Drawing:
    base = _placed(alt.Chart(ROWS), palette, "cold_s:Q").encode(tooltip="label:N")
    lines = base.mark_line(strokeWidth=1, opacity=0.45).encode(
        detail=["row_label:N", "compute_cache:N"]
    )
    points = base.mark_point(size=60, strokeWidth=2, cursor="pointer").encode(
        shape=alt.Shape("compute_cache:N", title=None), description="label:N"
    )
    return alt.layer(lines, points)


def _quartiles(palette: Palette) -> Drawing:
    """The states of the cache stand side by side."""
    chart = (
        alt.Chart(ROWS)
        .transform_aggregate(
            cold_s="median(cold_s)",
            first="q1(cold_s)",
            third="q3(cold_s)",
            groupby=["shapes", "config", "compute_cache"],
        )
        .transform_calculate(
            shapes=f"datum.shapes * pow({ASIDE}, indexof({STATES}, datum.compute_cache))",
            label="datum.config + ', ' + datum.compute_cache + ' cache'",
        )
    )
    spans = _placed(chart, palette, "first:Q").mark_rule(strokeWidth=3, opacity=0.4)
    base = _placed(chart, palette, "cold_s:Q")
    points = base.mark_point(size=70, strokeWidth=2, filled=True, opacity=1).encode(
        shape=alt.Shape("compute_cache:N", title=None), tooltip="label:N", description="label:N"
    )
    return alt.layer(spans.encode(y2="third:Q"), points)


def _placed(chart: alt.Chart, palette: Palette, seconds: str) -> alt.Chart:
    shapes = alt.Axis(format="d", grid=False, values=SHAPES)
    across = alt.Scale(type="log", nice=False, padding=20)
    up = alt.Axis(format="~g", values=TICKS, labelOverlap="greedy")
    placed: alt.Chart = chart.encode(
        x=alt.X("shapes:Q", scale=across, axis=shapes, title="distinct shapes"),
        y=alt.Y(
            seconds, scale=alt.Scale(type="log", padding=14, nice=False), axis=up, title="seconds"
        ),
        color=alt.Color("config:N", scale=alt.Scale(range=palette.categories), title=None),
    )
    return placed
