"""One chart of a report: what it is of, how it is read, and its Vega-Lite specs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import altair as alt

from cudnn_sweep.analysis.report.figures.palette import Palette

Layout = Literal["wide", "narrow", "dense"]
Drawing: TypeAlias = alt.Chart | alt.LayerChart | alt.FacetChart

LABEL_PX = 430  # of a cell's name beside a row
HEIGHT_PX = 300  # of a drawing
LABELLED_ROWS = 60  # more rows than these go without names, and close together
COARSE = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100]
FINE = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 1, 1.03, 1.05, 1.1, 1.2, 1.3, 1.5, 1.7, 2]
WIDE_RATIO = 3  # between the ends of an axis of ratios that has the coarse ticks
TICKS = [round(digit * 10.0**exponent, 9) for exponent in range(-6, 7) for digit in (1, 2, 5)]
RING = "M-1,0A1,1,0,1,1,1,0A1,1,0,1,1,-1,0M-.5,0A.5,.5,0,1,0,.5,0A.5,.5,0,1,0,-.5,0"
VERDICT_LOOKS = {
    "fails": ("fails", "diamond"),
    "helps": ("helps", "triangle-left"),
    "hurts": ("hurts", "triangle-right"),
    "equivalent": ("equivalent", "square"),
    "inconclusive": ("inconclusive", "circle"),
    "so_far_faster": ("less_3", "M.6,-.9L-.8,0L.6,.9L.6,.4L0,0L.6,-.4Z"),
    "so_far_slower": ("more_3", "M-.6,-.9L.8,0L-.6,.9L-.6,.4L0,0L-.6,-.4Z"),
    "undecided": ("c8", RING),
    "no_effect": ("no_effect", "cross"),
}
"""Each verdict's colour in the palette, and its shape."""
ROWS = alt.NamedData(name="rows")  # the page fills it: what the filters leave of the figure's table


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A chart in one or more layouts; the page takes what fits its width and the number of rows."""

    name: str
    title: str
    about: str
    """How to read it."""
    table: str
    """The page's table that it draws."""
    needs: tuple[str, ...]
    """Fields without which a row cannot be drawn."""
    only: Mapping[str, str] = field(default_factory=dict)
    """Fields that must have these values."""
    compares: str | None = None
    """The field that must have two values, or else there is nothing to compare and no chart."""
    columns: tuple[str, ...]
    """Fields that a tooltip and the table beside it show."""
    rows: str | None = None
    """The field of which each value has a line of its own, where the height follows them."""
    half: bool = False
    """Whether two of them stand side by side on a wide screen."""
    drawings: Mapping[Layout, Drawing]


Make: TypeAlias = Callable[[Palette, float], Figure]


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A figure of every report: `make` gets the page's colours and the minimum effect."""

    place: int
    """Charts are shown from the lowest place to the highest."""
    make: Make


def chart(*, place: int) -> Callable[[Make], Chart]:
    """Declare a chart by the function below; reports take all that the files in this folder declare."""

    def declare(make: Make) -> Chart:
        return Chart(place=place, make=make)

    return declare


def middle_cut(most: int) -> str:
    """What shows a longer name without its middle: its end tells it from others."""
    name, end = "datum.label", 2 * most // 3
    cut = f"slice({name}, 0, {most - end - 1}) + '…' + slice({name}, -{end})"
    return f"length({name}) > {most} ? {cut} : {name}"


def named_axis(label_px: int) -> alt.Axis:
    return alt.Axis(ticks=False, labelLimit=0, labelExpr=middle_cut(label_px // 7))


def ratios(channel: Literal["x", "y"], field: str, title: str, **axis: Any) -> Any:
    """A field of ratios on a log scale, as an `alt.X` or `alt.Y`."""
    span = f"domain('{channel}')[1] / domain('{channel}')[0]"
    ticks = alt.ExprRef(f"{span} > {WIDE_RATIO} ? {COARSE} : {FINE}")
    return {"x": alt.X, "y": alt.Y}[channel](
        f"{field}:Q",
        scale=alt.Scale(type="log", nice=False, padding=14),
        axis=alt.Axis(format="~g", values=ticks, labelOverlap="greedy", **axis),
        title=title,
    )


def verdict_marks(palette: Palette, size: int) -> alt.Chart:
    """A mark a verdict, in its colour and shape, which leads to its cell's trials."""
    marks: alt.Chart = (
        alt.Chart(ROWS)
        .mark_point(filled=True, size=size, opacity=1, cursor="pointer")
        .encode(
            color=verdict_colour(palette),
            shape=_verdict_shape(),
            tooltip="label:N",
            description="label:N",
        )
    )
    return marks


def verdict_colour(palette: Palette) -> alt.Color:
    colours = [getattr(palette, colour) for colour, _ in VERDICT_LOOKS.values()]
    return alt.Color("verdict:N", **_verdicts(colours))


def _verdict_shape() -> alt.Shape:
    """A shape a verdict, so that none rests on colour alone."""
    return alt.Shape("verdict:N", **_verdicts([shape for _, shape in VERDICT_LOOKS.values()]))


def _verdicts(looks: list[str]) -> dict[str, Any]:
    there = "indexof(pluck(data('rows'), 'verdict'), '{0}') < 0 ? '' : '{0} '"
    drawn = " + ".join(f"({there.format(name)})" for name in VERDICT_LOOKS)
    shown, plain = alt.ExprRef(f"split(trim({drawn}), ' ')"), "replace(datum.label, /_/g, ' ')"
    legend = alt.Legend(title=None, values=shown, labelExpr=plain)
    return {"scale": alt.Scale(domain=list(VERDICT_LOOKS), range=looks), "legend": legend}


def styled(drawing: Drawing, palette: Palette) -> Drawing:
    """Colours, sizes and grid that all charts share; the usual width and height where it has none."""
    font = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
    axis = alt.AxisConfig(
        labelColor=palette.ink,
        titleColor=palette.quiet,
        gridColor=palette.line,
        gridOpacity=0.6,
        domainColor=palette.line,
        tickColor=palette.line,
        labelFontSize=12,
        titleFontSize=12,
        titleFontWeight="normal",
        titlePadding=8,
    )
    legend = alt.LegendConfig(
        labelColor=palette.ink,
        titleColor=palette.quiet,
        labelFontSize=12,
        titleFontSize=12,
        titleFontWeight="normal",
        symbolSize=80,
        orient="top",
        labelLimit=400,
    )
    size = {
        name: usual
        for name, usual in {"width": "container", "height": HEIGHT_PX}.items()
        if getattr(drawing, name, None) is alt.Undefined
    }
    fit = {"type": "fit-x", "contains": "padding"}
    made: Drawing = drawing.properties(autosize=fit, **size).configure(
        font=font, background="transparent", axis=axis, legend=legend, view={"stroke": None}
    )
    return made
