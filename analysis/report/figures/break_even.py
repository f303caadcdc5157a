"""What the first calls cost, by how many shapes there are, and after how many iterations it is paid back."""

import altair as alt

from cudnn_sweep.analysis.report.figures.figure import (
    ROWS,
    TICKS,
    Drawing,
    Figure,
    chart,
    middle_cut,
    styled,
)
from cudnn_sweep.analysis.report.figures.palette import Palette

MOST_CURVES = 8  # more cannot be told apart
MOST_EXPONENT = 7  # 10 million iterations: days
STEP = 0.05  # of the exponent, from one point of a curve to the next
SHAPES = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256]


@chart(place=30)
def break_even_empty(palette: Palette, min_effect: float) -> Figure:
    return _break_even(palette, "empty")


@chart(place=40)
def break_even_warm(palette: Palette, min_effect: float) -> Figure:
    return _break_even(palette, "warm")


def _break_even(palette: Palette, compute_cache: str) -> Figure:
    return Figure(
        name=f"break_even_{compute_cache}",
        title=f"Break-even point, {compute_cache} compute cache",
        about="Seconds saved by the candidate after so many iterations, its extra cold cost "
        f"subtracted, for the {MOST_CURVES} cells with the largest effect. A curve starts below "
        "zero by that cost; a dot with its 95% interval marks where it crosses.",
        table="paybacks",
        needs=("gain_ms", "tuning_ms"),
        only={"compute_cache": compute_cache, "is_told": "yes"},
        columns=(
            "label",
            "outcome",
            "break_even_iterations",
            "break_even_low",
            "break_even_high",
            "tuning_ms",
            "gain_ms",
        ),
        half=True,
        drawings={"wide": styled(_curves(palette), palette)},
    )


def _curves(palette: Palette) -> Drawing:
    ranked = (
        alt.Chart(ROWS)
        .transform_window(rank="row_number()", sort=[alt.SortField("effect", order="descending")])
        .transform_filter(f"datum.rank <= {MOST_CURVES}")
    )
    exponents = f"sequence(0, {MOST_EXPONENT + STEP}, {STEP})"
    x_axis = alt.Axis(format="~s", tickCount=8, grid=False)
    x_scale = alt.Scale(type="log", domain=[1, 10**MOST_EXPONENT])
    x = alt.X("iterations:Q", scale=x_scale, axis=x_axis, title="iterations")
    seconds = [sign * 10**n for n in range(-1, 7) for sign in (-1, 1)]
    y_axis = alt.Axis(
        labelExpr="format(datum.value, ',~g')", values=[0, *seconds], labelOverlap="greedy"
    )
    y = alt.Y(
        "saved_s:Q",
        scale=alt.Scale(type="symlog", constant=0.01, nice=False, padding=10),
        axis=y_axis,
        title="seconds saved",
    )
    cut = middle_cut(36)
    legend = alt.Legend(orient="bottom", columns=1, title=None, symbolOpacity=1, labelExpr=cut)
    colour = alt.Color(
        "short_label:N",
        scale=alt.Scale(range=palette.categories),
        legend=legend,
    )
    curves = (
        ranked.transform_calculate(exponent=exponents)
        .transform_flatten(["exponent"])
        .transform_calculate(iterations="pow(10, datum.exponent)")
        .transform_calculate(saved_s="(datum.gain_ms * datum.iterations - datum.tuning_ms) / 1000")
        .mark_line(strokeWidth=2, cursor="pointer")
        .encode(x=x, y=y, color=colour, detail="cell:N", tooltip="label:N")
    )
    crossed = ranked.transform_filter(
        f"datum.break_even_iterations >= 1 && datum.break_even_iterations <= 1e{MOST_EXPONENT}"
    )
    intervals = (
        crossed.transform_calculate(
            iterations="max(1, datum.break_even_low)",
            last=f"min(1e{MOST_EXPONENT}, datum.break_even_high)",
        )
        .transform_filter("isValid(datum.break_even_low) && isValid(datum.break_even_high)")
        .mark_rule(strokeWidth=4, opacity=0.5)
        .encode(x=x, x2="last:Q", y=alt.datum(0), color=colour)
    )
    dots = (
        crossed.transform_calculate(iterations="datum.break_even_iterations")
        .mark_point(filled=True, size=90, opacity=1, cursor="pointer")
        .encode(x=x, y=alt.datum(0), color=colour, tooltip="label:N", description="label:N")
    )
    nothing = alt.Chart(alt.InlineData(values=[{}]))
    zero = nothing.mark_rule(color=palette.quiet, strokeDash=[3, 3]).encode(y=alt.datum(0))
    return alt.layer(zero, curves, intervals, dots)


@chart(place=60)
def cold_cost(palette: Palette, min_effect: float) -> Figure:
    return Figure(
        name="cold_cost",
        title="Cold cost by number of shapes",
        about="Seconds that the first calls of all distinct shapes took, median over processes, by "
        "config and by the state of CUDA's cache of compiled kernels. A line joins the regimes of "
        "one workload.",
        table="cold_costs",
        needs=("cold_s", "shapes"),
        compares="shapes",
        columns=("label", "config", "compute_cache", "shapes", "cold_s"),
        half=True,
        drawings={"wide": styled(_points(palette), palette)},
    )


def _points(palette: Palette) -> Drawing:
    shapes = alt.Axis(format="d", grid=False, values=SHAPES)
    across = alt.Scale(type="log", nice=False, padding=20)
    up = alt.Axis(format="~g", values=TICKS, labelOverlap="greedy")
    seconds = alt.Scale(type="log", padding=14, nice=False)
    base = alt.Chart(ROWS).encode(
        x=alt.X("shapes:Q", scale=across, axis=shapes, title="distinct shapes"),
        y=alt.Y("cold_s:Q", scale=seconds, axis=up, title="seconds"),
        color=alt.Color("config:N", scale=alt.Scale(range=palette.categories), title=None),
        tooltip="label:N",
    )
    lines = base.mark_line(strokeWidth=1, opacity=0.45).encode(
        detail=["row_label:N", "compute_cache:N"]
    )
    points = base.mark_point(size=60, strokeWidth=2, cursor="pointer").encode(
        shape=alt.Shape("compute_cache:N", title=None), description="label:N"
    )
    return alt.layer(lines, points)
