"""What speed costs in memory, and what it costs in error to have a faster precision."""

import altair as alt

from cudnn_sweep.analysis.report.figures.figure import (
    ROWS,
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
            "baseline_peak_mib",
            "candidate_peak_mib",
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
            "label",
            "config",
            "precision",
            "relative_l2_error",
            "ratio",
            "ratio_low",
            "ratio_high",
            "ms",
        ),
        half=True,
        drawings={"wide": styled(_of_error(palette), palette)},
    )


def _of_error(palette: Palette) -> Drawing:
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
            y=ratios("y", "ratio", "time ratio"),
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
