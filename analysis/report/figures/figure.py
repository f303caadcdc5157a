"""One chart of a report: what it is of, how it is read, and its Vega-Lite specs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from cudnn_sweep.analysis.report.figures.palette import colour

Layout = Literal["wide", "narrow", "dense"]
Spec: TypeAlias = dict[str, Any]
"""Vega-Lite's JSON, or a part of it."""

LABEL_PX = 430  # of a cell's name beside a row
HEIGHT_PX = 300  # of a drawing
LABELLED_ROWS = 60  # more rows than these go without names, and close together
COARSE = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100]
FINE = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 1, 1.03, 1.05, 1.1, 1.2, 1.3, 1.5, 1.7, 2]
WIDE_RATIO = 3  # between the ends of an axis of ratios that has the coarse ticks
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
ROWS: Spec = {"name": "rows"}  # the page fills it: what the filters leave of the figure's table
TITLE = {"titleColor": colour("quiet"), "titleFontSize": 12, "titleFontWeight": "normal"}
TEXT = TITLE | {"labelColor": colour("ink"), "labelFontSize": 12}
LINES = {name: colour("line") for name in ("gridColor", "domainColor", "tickColor")}
STYLE = {
    "font": "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
    "background": "transparent",
    "axis": TEXT | LINES | {"gridOpacity": 0.6, "titlePadding": 8},
    "legend": TEXT | {"symbolSize": 80, "orient": "top", "labelLimit": 400},
    "view": {"stroke": None},
}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Figure:
    """A chart in one or more layouts; the page takes what fits its width and the number of rows.

    Reports show all that the files of this folder declare.
    """

    place: int
    """Charts are shown from the lowest place to the highest."""
    name: str
    title: str
    about: str
    """How to read it."""
    table: str
    """The page's table that it draws."""
    needs: Sequence[str]
    """Fields without which a row cannot be drawn."""
    only: Mapping[str, str] = field(default_factory=dict)
    """Fields that must have these values."""
    compares: str | None = None
    """The field that must have two values, or else there is nothing to compare and no chart."""
    columns: Sequence[str]
    """Fields that a tooltip and the table beside it show."""
    rows: str | None = None
    """The field of which each value has a line of its own, where the height follows them."""
    half: bool = False
    """Whether two of them stand side by side on a wide screen."""
    drawings: Mapping[Layout, Spec]


def drawing(*layers: Spec, height: int | Spec = HEIGHT_PX) -> Spec:
    """The layers over each other, with the look that all charts share. Their expressions know `min_effect`."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "width": "container",
        "height": height,
        "config": STYLE,
        "layer": list(layers),
    }


def marks(mark: Spec, transform: Sequence[Spec] = (), data: Spec = ROWS, **encoding: Any) -> Spec:
    """A layer: a mark for each row of the transformed data."""
    return {"data": data, "transform": list(transform), "mark": mark, "encoding": encoding}


def nominal(name: str, **more: Any) -> Spec:
    return {"field": name, "type": "nominal", **more}


def quantity(name: str, **more: Any) -> Spec:
    return {"field": name, "type": "quantitative", **more}


def calculate(**expressions: str) -> list[Spec]:
    return [{"calculate": text, "as": name} for name, text in expressions.items()]


TOOLTIP: Spec = {"tooltip": nominal("label")}
LABEL: Spec = TOOLTIP | {"description": nominal("label")}


def dashed(**encoding: Any) -> Spec:
    """A quiet line where the encoding says, whatever the rows are."""
    line = {"type": "rule", "color": colour("quiet"), "strokeDash": [3, 3]}
    return marks(line, data={"values": [{}]}, **encoding)


def middle_cut(most: int) -> str:
    """What shows a longer name without its middle: its end tells it from others."""
    name, end = "datum.label", 2 * most // 3
    cut = f"slice({name}, 0, {most - end - 1}) + '…' + slice({name}, -{end})"
    return f"length({name}) > {most} ? {cut} : {name}"


def named_axis(label_px: int) -> Spec:
    return {"ticks": False, "labelLimit": 0, "labelExpr": middle_cut(label_px // 7)}


def ratios(channel: Literal["x", "y"], name: str, title: str, **axis: Any) -> Spec:
    """A field of ratios on a log scale."""
    span = f"domain('{channel}')[1] / domain('{channel}')[0]"
    ticks = {"expr": f"{span} > {WIDE_RATIO} ? {COARSE} : {FINE}"}
    return quantity(
        name,
        title=title,
        scale={"type": "log", "nice": False, "padding": 14},
        axis={"format": "~g", "values": ticks, "labelOverlap": "greedy", **axis},
    )


def verdict_marks(size: int, **encoding: Any) -> Spec:
    """A mark a verdict, in its colour and shape, so that none rests on colour alone; it leads to its cell's trials."""
    mark = {"type": "point", "filled": True, "size": size, "opacity": 1, "cursor": "pointer"}
    shape = _by_verdict([shape for _, shape in VERDICT_LOOKS.values()])
    return marks(mark, color=verdict_colour(), shape=shape, **LABEL, **encoding)


def verdict_colour() -> Spec:
    return _by_verdict([colour(name) for name, _ in VERDICT_LOOKS.values()])


def _by_verdict(looks: list[str]) -> Spec:
    there = "indexof(pluck(data('rows'), 'verdict'), '{0}') < 0 ? '' : '{0} '"
    drawn = " + ".join(f"({there.format(name)})" for name in VERDICT_LOOKS)
    shown, plain = {"expr": f"split(trim({drawn}), ' ')"}, "replace(datum.label, /_/g, ' ')"
    legend = {"title": None, "values": shown, "labelExpr": plain}
    return nominal("verdict", scale={"domain": list(VERDICT_LOOKS), "range": looks}, legend=legend)
