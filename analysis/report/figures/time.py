"""Where the slots' time went."""

import altair as alt

from cudnn_sweep.analysis.report.figures.figure import ROWS, Drawing, Figure, chart, styled
from cudnn_sweep.analysis.report.figures.palette import Palette


@chart(place=90)
def time(palette: Palette, min_effect: float) -> Figure:
    return Figure(
        name="time",
        title="Where the time went",
        about="Shares of the slots' wall time over all trials. Cold, calibration and steady are what "
        "was asked for; the rest is what asking costs.",
        table="time",
        needs=("share",),
        columns=("part", "share", "total_s", "kind"),
        half=True,
        rows="part",
        drawings={"wide": styled(_bars(palette), palette)},
    )


def _bars(palette: Palette) -> Drawing:
    kinds = alt.Scale(domain=["measuring", "around it"], range=[palette.helps, palette.no_effect])
    order = alt.EncodingSortField("share", op="min", order="descending")
    bars: Drawing = (
        alt.Chart(ROWS)
        .transform_calculate(shown="datum.part + '\u2003' + format(datum.share, '.1%')")
        .mark_bar(height={"band": 0.7})
        .encode(
            x=alt.X("share:Q", axis=None),
            y=alt.Y("shown:N", sort=order, axis=alt.Axis(ticks=False, domain=False), title=None),
            color=alt.Color("kind:N", scale=kinds, title=None),
            tooltip="part:N",
            description="shown:N",
        )
        .properties(width="container", height=alt.Step(22))
    )
    return bars
