"""The picture of the first screen: each cell's ratio with its interval, from gain to loss."""

import altair as alt

from cudnn_sweep.analysis.report.figures.figure import (
    ROWS,
    Drawing,
    Figure,
    chart,
    ratios,
    styled,
    verdict_colour,
    verdict_marks,
)
from cudnn_sweep.analysis.report.figures.palette import Palette
from cudnn_sweep.analysis.words import given

WIDEST = 4  # an interval is cut where it is that many times its ratio, or else nothing else is seen
DEVICE_BELOW_PX = 8
FONT_PX = 12
MARK, DENSE_MARK = 85, 22  # square pixels
SORTED = alt.EncodingSortField("ratio", op="min", order="ascending")


@chart(place=10)
def effect(palette: Palette, min_effect: float) -> Figure:
    return Figure(
        name="effect",
        title="Effect by cell",
        about="Candidate time divided by baseline time on a log scale, the largest gain first; left "
        "of 1 the candidate is faster. The small grey mark below a cell's own is the time on the GPU "
        "alone; a loop that waits for the CPU gains less than it. Lines are 95% intervals, cut where "
        f"they are wider than the chart can hold. The band is the minimum effect, {given(100 * min_effect)}% either way: what "
        "lies within it makes no difference that counts. Select a mark for its cell's trials.",
        table="verdicts",
        needs=("ratio",),
        columns=(
            "label",
            "ratio",
            "ratio_low",
            "ratio_high",
            "verdict",
            "device_ratio",
            "baseline_ms",
            "candidate_ms",
            "blocks",
        ),
        rows="short_label",
        drawings={
            "wide": styled(_rows(palette, min_effect, 24), palette),
            "narrow": styled(_named_above(palette, min_effect), palette),
            "dense": styled(_rows(palette, min_effect, 4), palette),
        },
    )


def _rows(palette: Palette, min_effect: float, step: float) -> Drawing:
    """Where lines are close together as many have their names as there is room for."""
    axis = alt.Axis(labelLimit=0, ticks=False, labelOverlap="greedy", labelSeparation=3)
    y = alt.Y("short_label:N", sort=SORTED, axis=axis, title=None)
    is_wide = step > FONT_PX
    size = MARK if is_wide else DENSE_MARK
    drawn = _layers(palette, min_effect, y, size, device=is_wide)
    return drawn.properties(height=alt.Step(step))


def _named_above(palette: Palette, min_effect: float) -> Drawing:
    """For narrow screens: the name stands above its line."""
    y = alt.Y("short_label:N", sort=SORTED, axis=None)
    names = (
        alt.Chart(ROWS)
        .mark_text(align="left", dy=-13, fontSize=11, color=palette.ink, limit=340)
        .encode(y=y, x=alt.value(0), text="short_label:N")
    )
    return alt.layer(_layers(palette, min_effect, y, MARK, device=True), names).properties(
        width="container", height=alt.Step(36)
    )


def _layers(palette: Palette, min_effect: float, y: alt.Y, size: int, *, device: bool) -> Drawing:
    """With `device` the time on the GPU alone stands below the wall time, where it is known."""
    title = "← faster\u2003candidate time / baseline time\u2003slower →"
    x = ratios("x", "ratio", title, orient="top")
    ends = (
        alt.Chart(ROWS)
        .transform_calculate(
            low=f"max(datum.ratio_low, datum.ratio / {WIDEST})",
            high=f"min(datum.ratio_high, datum.ratio * {WIDEST})",
        )
        .transform_filter("isValid(datum.ratio_low) && isValid(datum.ratio_high)")
        .mark_rule(strokeWidth=2)
        .encode(y=y, x=alt.X("low:Q", title=title), x2="high:Q", color=verdict_colour(palette))
    )
    marks = verdict_marks(palette, size).encode(y=y, x=x)
    layers = [_band(palette, min_effect), _one(palette), ends, marks]
    return alt.layer(*layers, *(_device(palette, y) if device else ())).properties(
        width="container"
    )


def _device(palette: Palette, y: alt.Y) -> list[Drawing]:
    known = alt.Chart(ROWS).transform_filter("isValid(datum.device_ratio)")
    ends = (
        known.transform_filter("isValid(datum.device_ratio_low)")  # Vega takes null for 0
        .transform_calculate(
            low=f"max(datum.device_ratio_low, datum.device_ratio / {WIDEST})",
            high=f"min(datum.device_ratio_high, datum.device_ratio * {WIDEST})",
        )
        .mark_rule(color=palette.quiet, yOffset=DEVICE_BELOW_PX)
        .encode(y=y, x="low:Q", x2="high:Q")
    )
    marks = known.mark_point(
        color=palette.quiet, filled=True, size=24, opacity=1, yOffset=DEVICE_BELOW_PX
    ).encode(y=y, x="device_ratio:Q")
    return [ends, marks]


def _band(palette: Palette, min_effect: float) -> Drawing:
    ends = alt.InlineData(values=[{"from": 1 / (1 + min_effect), "to": 1 + min_effect}])
    band = alt.Chart(ends).mark_rect(color=palette.band, opacity=1)
    drawn: Drawing = band.encode(x="from:Q", x2="to:Q")
    return drawn


def _one(palette: Palette) -> Drawing:
    line = alt.Chart(alt.InlineData(values=[{"one": 1}]))
    drawn: Drawing = line.mark_rule(color=palette.quiet, strokeDash=[3, 3]).encode(x="one:Q")
    return drawn
