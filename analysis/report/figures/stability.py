"""Whether processes agree on what they run."""

import altair as alt

from cudnn_sweep.analysis.report.figures.figure import (
    LABEL_PX,
    ROWS,
    Drawing,
    Figure,
    chart,
    named_axis,
    styled,
)
from cudnn_sweep.analysis.report.figures.palette import Palette


@chart(place=70)
def stability(palette: Palette, min_effect: float) -> Figure:
    return Figure(
        name="stability",
        title="Choice stability",
        about="The share of processes that ran the config's most common kernels. At 100% every "
        "process chose alike; below it, which kernels a run gets is a draw.",
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
            "wide": styled(_dots(palette, named_axis(LABEL_PX), 20), palette),
            "narrow": styled(_dots(palette, named_axis(150), 20), palette),
            "dense": styled(_dots(palette, None, 4), palette),
        },
    )


def _dots(palette: Palette, axis: alt.Axis | None, step: float) -> Drawing:
    y = alt.Y(
        "short_label:N",
        title=None,
        axis=axis,
        sort=alt.EncodingSortField("choice_share", op="min", order="ascending"),
    )
    x = alt.X(
        "choice_share:Q",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format="%", orient="top", tickCount=5),
        title="processes that ran the most common choice",
    )
    base = alt.Chart(ROWS).encode(y=y)
    spans = base.mark_rule(color=palette.line, strokeWidth=step / 10).encode(
        x=alt.X("min(choice_share):Q", title=None), x2="max(choice_share):Q"
    )
    dots = base.mark_point(
        size=max(22, 3.5 * step), strokeWidth=max(1, step / 10), cursor="pointer"
    ).encode(
        x=x,
        color=alt.Color("config:N", scale=alt.Scale(range=palette.categories), title=None),
        shape=alt.Shape("config:N", title=None),
        tooltip="label:N",
        description="label:N",
    )
    return alt.layer(spans, dots).properties(width="container", height=alt.Step(step))
