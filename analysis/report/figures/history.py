"""A series over its nights: of numbers with its levels, of words a line a word.

The page fills `rows` (a night each), `levels` (from one change to the next), `jumps` (the changes) and
`versions` (the nights from which on the software was another). It also sets the domains, which it
knows and Vega would ask empty tables for.
"""

import altair as alt

from cudnn_sweep.analysis.report.figures.figure import ROWS, Drawing, Layout, styled
from cudnn_sweep.analysis.report.figures.palette import Palette

LEVELS = alt.NamedData(name="levels")
JUMPS = alt.NamedData(name="jumps")
VERSIONS = alt.NamedData(name="versions")
HEIGHT_PX = 200
LABELS_PX = 64  # at least, so that the nights of several charts stand below each other
SHORT = "datum.value && abs(datum.value) < 0.001 ? format(datum.value, '.3~g') : datum.label"
LABEL = f"({SHORT}) + ' ' + unit"
STATES = ["usual", "worse", "better", "changed", "beyond the scale", "not measured"]
SHAPES = ["circle", "triangle-right", "triangle-left", "diamond", "triangle-up", "cross"]
COLUMNS = {
    "day": "night",
    "shown": "value",
    "level": "level",
    "state": "state",
    "processes": "processes",
    "version": "software",
    "night": "sweep",
}
"""Titles of the fields that a tooltip and the table beside a chart show."""


def drawings(palette: Palette) -> dict[str, dict[Layout, Drawing]]:
    """The drawings of a history of numbers, and of one of words, by layout."""
    return {
        "numbers": {"wide": styled(_numbers(palette), palette)},
        "words": {
            "wide": styled(_words(palette, 330), palette),
            "narrow": styled(_words(palette, 120), palette),
        },
    }


def _numbers(palette: Palette) -> Drawing:
    scale = alt.Scale(nice=False)
    axis = alt.Axis(tickCount=5, labelExpr=LABEL, minExtent=LABELS_PX)
    up = alt.Y("value:Q", scale=scale, axis=axis, title=None)
    base = alt.Chart(ROWS).encode(x=_across("date"))
    line = base.mark_line(color=palette.c1, strokeWidth=1, opacity=0.5, aria=False).encode(y=up)
    points = _points(base.transform_filter("datum.value !== null"), palette).encode(y=up)
    missing = _points(base.transform_filter("datum.value === null"), palette).encode(
        y=alt.value(HEIGHT_PX - 8)
    )
    levels = (
        alt.Chart(LEVELS)
        .mark_rule(color=palette.c5, strokeWidth=3, opacity=0.7, aria=False)
        .encode(x=_across("start"), x2="end:Q", y=alt.Y("level:Q", scale=scale))
    )
    jumps = alt.Chart(JUMPS).encode(x=_across("date"))
    steps = jumps.mark_rule(color=palette.c5, strokeWidth=3, opacity=0.7, aria=False).encode(
        y=alt.Y("before:Q", scale=scale), y2="after:Q"
    )
    sizes = jumps.mark_text(
        color=palette.ink, fontSize=12, fontWeight=600, align="right", dx=-6
    ).encode(y=alt.Y("middle:Q", scale=scale), text="size:N")
    return _placed([*_versions(palette), levels, line, steps, points, missing, sizes])


def _words(palette: Palette, label_px: int) -> Drawing:
    """From top to bottom in the order in which they came."""
    up = alt.Y("value:N", sort=None, title=None, axis=alt.Axis(labelLimit=label_px, ticks=False))
    base = alt.Chart(ROWS).encode(x=_across("date"), y=up)
    runs = (
        alt.Chart(LEVELS)
        .mark_rule(color=palette.c1, strokeWidth=3, opacity=0.35, aria=False)
        .encode(x=_across("start"), x2="end:Q", y=alt.Y("level:N", sort=None))
    )
    return _placed([*_versions(palette), runs, _points(base, palette)])


def _placed(layers: list[alt.Chart]) -> Drawing:
    drawing: Drawing = alt.layer(*layers).properties(width="container", height=HEIGHT_PX)
    return drawing


def _across(field: str) -> alt.X:
    """Milliseconds, which Vega shows as days of UTC: a night's date is the same for every reader."""
    axis = alt.Axis(
        labelExpr="utcFormat(datum.value, '%-d %b')",
        grid=False,
        values=alt.ExprRef("days"),
        labelOverlap="greedy",
    )
    return alt.X(f"{field}:Q", scale=alt.Scale(padding=14, nice=False), axis=axis, title=None)


def _points(chart: alt.Chart, palette: Palette) -> alt.Chart:
    colours = [
        palette.c1,
        palette.hurts,
        palette.equivalent,
        palette.c4,
        palette.inconclusive,
        palette.quiet,
    ]
    size = alt.condition("datum.state === 'usual'", alt.value(50), alt.value(90))
    drawn: alt.Chart = chart.mark_point(filled=True, opacity=1).encode(
        size=size,
        color=alt.Color("state:N", scale=alt.Scale(domain=STATES, range=colours), legend=None),
        shape=alt.Shape("state:N", scale=alt.Scale(domain=STATES, range=SHAPES), legend=None),
        tooltip="day:N",
        description="told:N",
    )
    return drawn


def _versions(palette: Palette) -> list[alt.Chart]:
    """A line from top to bottom, and a number that the list beneath explains."""
    base = alt.Chart(VERSIONS).encode(x=_across("date"))
    top = base.encode(y=alt.value(0), tooltip="day:N", description="version:N")
    return [
        base.mark_rule(color=palette.quiet, strokeDash=[3, 3], aria=False),
        top.mark_point(filled=True, shape="circle", size=260, opacity=1, color=palette.quiet),
        top.mark_text(color=palette.paper, fontSize=11, fontWeight=600).encode(text="number:N"),
    ]
