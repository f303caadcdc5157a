"""Whether processes agree on what they run."""

import altair as alt

from cudnn_sweep.analysis.report.figures.figure import (
    LABEL_PX,
    LABELLED_ROWS,
    ROWS,
    Drawing,
    Figure,
    chart,
    named_axis,
    styled,
)
from cudnn_sweep.analysis.report.figures.palette import Palette

KINDS = ["all alike", "three in four", "half", "fewer"]


@chart(place=70)
def stability(palette: Palette, min_effect: float) -> Figure:
    return Figure(
        name="stability",
        title="Choice stability",
        about="The share of processes that ran the config's most common kernels. At 100% every "
        "process chose alike; below it, which kernels a run gets is a draw. Where there are more than "
        f"{LABELLED_ROWS} cells they are counted.",
        table="choices",
        needs=("choice_share",),
        columns=(
            "label",
            "config",
            "choice_share",
            "entropy_bits",
            "distinct_choices",
            "processes",
        ),
        rows="short_label",
        drawings={
            "wide": styled(_dots(palette, LABEL_PX, 20), palette),
            "narrow": styled(_dots(palette, 150, 20), palette),
            "dense": styled(_counts(palette), palette),
        },
    )


def _counts(palette: Palette) -> Drawing:
    share = "datum.choice_share"
    kinds = f"{share} == 1 ? '{KINDS[0]}' : {share} >= 0.75 ? '{KINDS[1]}' : {share} >= 0.5 ? "
    counts: Drawing = (
        alt.Chart(ROWS)
        .transform_calculate(agreement=f"{kinds} '{KINDS[2]}' : '{KINDS[3]}'")
        .mark_bar()
        .encode(
            y=alt.Y("agreement:N", sort=KINDS, title=None, axis=alt.Axis(ticks=False)),
            yOffset="config:N",
            x=alt.X("count()", title="cells"),
            color=alt.Color("config:N", scale=alt.Scale(range=palette.categories), title=None),
        )
        .properties(width="container", height=260)
    )
    return counts


def _dots(palette: Palette, label_px: int, step: float) -> Drawing:
    y = alt.Y(
        "short_label:N",
        title=None,
        axis=named_axis(label_px),
        sort=alt.EncodingSortField("choice_share", op="min", order="ascending"),
    )
    x = alt.X(
        "choice_share:Q",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format="%", orient="top", tickCount=5),
        title="processes that ran the most common choice",
    )
    base = alt.Chart(ROWS).encode(y=y)
    spans = base.mark_rule(color=palette.line, strokeWidth=2).encode(
        x=alt.X("min(choice_share):Q", title=None), x2="max(choice_share):Q"
    )
    dots = base.mark_point(size=70, strokeWidth=2, cursor="pointer").encode(
        x=x,
        color=alt.Color("config:N", scale=alt.Scale(range=palette.categories), title=None),
        shape=alt.Shape("config:N", title=None),
        tooltip="label:N",
        description="label:N",
    )
    return alt.layer(spans, dots).properties(width="container", height=alt.Step(step))
