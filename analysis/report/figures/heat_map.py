"""Problems by regimes, coloured by the ratio."""

import altair as alt

from cudnn_sweep.analysis.report.figures.figure import (
    CELL,
    LABEL_PX,
    ROWS,
    VERDICT,
    Column,
    Drawing,
    Figure,
    styled,
)
from cudnn_sweep.analysis.report.figures.palette import Palette

MUCH, SOME = 2.0, 1.25  # ratios at which the colours change
SIGNS = {"helps": "◀", "hurts": "▶", "equivalent": "=", "inconclusive": "?", "no_effect": "·"}


def figure(palette: Palette, min_effect: float) -> Figure:
    return Figure(
        name="heat_map",
        title="Workload by regime",
        about="The same ratios, so that rows compare how shapes arrive. Each field shows the ratio "
        "and its verdict: ◀ helps, ▶ hurts, = equivalent, ? inconclusive, · no effect.",
        empty="No cell has both configs measured in one block.",
        table="verdicts",
        needs=("ratio",),
        columns=(
            Column(field="row_label", title="workload", kind="text"),
            Column(field="regime_label", title="regime", kind="text"),
            Column(field="ratio", title="ratio", kind="ratio"),
            VERDICT,
            CELL,
        ),
        rows="row_label",
        drawings={
            "wide": styled(_map(palette, min_effect, LABEL_PX, -20), palette),
            "narrow": styled(_map(palette, min_effect, 150, -90), palette),
        },
    )


def _map(palette: Palette, min_effect: float, label_px: int, angle: int) -> Drawing:
    signs = " ".join(f"datum.verdict == '{name}' ? ' {sign}' :" for name, sign in SIGNS.items())
    base = (
        alt.Chart(ROWS)
        .transform_calculate(shown=f"format(datum.ratio, '.2f') + ({signs} '')")
        .encode(
            x=alt.X("regime_label:N", title=None, axis=alt.Axis(orient="top", labelAngle=angle)),
            y=alt.Y("row_label:N", title=None, axis=alt.Axis(labelLimit=label_px, ticks=False)),
            tooltip=alt.Tooltip("label:N"),
        )
    )
    fields = base.mark_rect(stroke=palette.paper, strokeWidth=2, cursor="pointer").encode(
        color=alt.Color("ratio:Q", scale=_scale(palette, min_effect), legend=None),
        description="label:N",
    )
    text = base.mark_text(color=palette.ink, fontSize=11, cursor="pointer").encode(text="shown:N")
    return alt.layer(fields, text).properties(width="container", height=alt.Step(26))


def _scale(palette: Palette, min_effect: float) -> alt.Scale:
    counts = 1 + min_effect
    some = max(SOME, counts)
    much = max(MUCH, some)
    domain = [1 / much, 1 / some, 1 / counts, counts, some, much]
    return alt.Scale(type="threshold", domain=domain, range=palette.steps)
