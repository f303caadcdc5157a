"""One chart of a report: its table, its explanation and its Vega-Lite spec.

Expressions of a spec may use `min_effect`; `narrow`, true on a phone; and `dense`, true if rows are too many for a line
with a name each.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from cudnn_sweep.analysis.report.figures.palette import colour

Spec: TypeAlias = dict[str, Any]
"""Vega-Lite's JSON, or a part of it."""

RING = "M-1,0A1,1,0,1,1,1,0A1,1,0,1,1,-1,0M-.5,0A.5,.5,0,1,0,.5,0A.5,.5,0,1,0,-.5,0"
VERDICTS = {
    "fails": ("✗", "fails", "fails", "diamond"),
    "helps": ("◀", "helps", "helps", "triangle-left"),
    "hurts": ("▶", "hurts", "hurts", "triangle-right"),
    "equivalent": ("■", "equivalent", "equivalent", "square"),
    "inconclusive": ("●", "inconclusive", "inconclusive", "circle"),
    "so_far_faster": ("◁", "so far faster", "less_3", "M.6,-.9L-.8,0L.6,.9L.6,.4L0,0L.6,-.4Z"),
    "so_far_slower": ("▷", "so far slower", "more_3", "M-.6,-.9L.8,0L-.6,.9L-.6,.4L0,0L-.6,-.4Z"),
    "undecided": ("○", "not decided yet", "c8", RING),
    "no_effect": ("✚", "no effect", "no_effect", "cross"),
    "not_measured": ("–", "not measured", "c8", "stroke"),
}
"""Each verdict's sign and words, its colour in the palette, and its shape."""
VERDICT_TEXTS = {name: f"{sign} {words}" for name, (sign, words, *_) in VERDICTS.items()}
ROWS: Spec = {"name": "rows"}  # filled by the page: the rows that the reader's filters leave
TITLE = {"titleColor": colour("quiet"), "titleFontSize": 12, "titleFontWeight": "normal"}
TEXT = TITLE | {"labelColor": colour("ink"), "labelFontSize": 12}
LINES = {name: colour("line") for name in ("gridColor", "domainColor", "tickColor")}
LEGEND = {"symbolSize": 80, "orient": "top", "labelLimit": 290}
STYLE = {
    "font": "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
    "background": "transparent",
    "axis": TEXT
    | LINES
    | {
        "gridOpacity": 0.6,
        "titlePadding": 8,
        "titleAnchor": {"expr": "narrow ? 'end' : 'middle'"},
    },
    "legend": TEXT | LEGEND | {"columns": {"expr": "narrow ? 2 : 0"}},
    "view": {"stroke": None},
}
ROW_AXIS = {
    "ticks": False,
    "labelLimit": 0,
    "labelOverlap": "greedy",  # as many names as there is room for
    "labelSeparation": 3,
    "labelExpr": "truncate(datum.label, narrow ? 30 : 61, 'center')",
}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Figure:
    """A chart. Reports show each Figure that a file of this folder declares."""

    place: int
    """Charts are shown from the lowest place to the highest."""
    name: str
    title: str
    about: str
    """Explanation for readers."""
    table: str
    """Name of the page's table that the chart draws."""
    needs: Sequence[str]
    """Fields without which a row cannot be drawn."""
    compares: str | None = None
    """Field that must have at least two values; else the chart is left out."""
    columns: Sequence[str]
    """Fields that a tooltip and the table beside it show."""
    rows: str | None = None
    """Field with a line for each value, if the chart's height depends on their number."""
    drawing: Spec


def drawing(*layers: Spec) -> Spec:
    """Return the layers over each other, with the common look of all charts."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "width": "container",
        "config": STYLE,
        "layer": list(layers),
    }


def marks(mark: Spec, transform: Sequence[Spec] = (), data: Spec = ROWS, **encoding: Any) -> Spec:
    """Return a layer: a mark for each row of the transformed data."""
    return {"data": data, "transform": list(transform), "mark": mark, "encoding": encoding}


def nominal(name: str, **more: Any) -> Spec:
    return {"field": name, "type": "nominal", **more}


def quantity(name: str, **more: Any) -> Spec:
    return {"field": name, "type": "quantitative", **more}


def line_each(name: str, **more: Any) -> Spec:
    """Return an axis with a line and a name for each value of the figure's `rows`."""
    return nominal(name, title=None, axis=ROW_AXIS, **more)


def calculate(**expressions: str) -> list[Spec]:
    return [{"calculate": text, "as": name} for name, text in expressions.items()]


TOOLTIP: Spec = {"tooltip": nominal("label")}
LABEL: Spec = TOOLTIP | {"description": nominal("label")}


def dashed(**encoding: Any) -> Spec:
    """Return a quiet line at the place of the encoding, whatever the rows are."""
    line = {"type": "rule", "color": colour("quiet"), "strokeDash": [3, 3]}
    return marks(line, data={"values": [{}]}, **encoding)


def points(transform: Sequence[Spec] = (), **encoding: Any) -> Spec:
    """Return a mark for each row that leads to its cell's trials."""
    size = {"expr": "dense ? 22 : 85"}
    mark = {"type": "point", "filled": True, "size": size, "opacity": 1, "cursor": "pointer"}
    return marks(mark, transform, **LABEL, **encoding)


def log_scaled(name: str, title: str, **axis: Any) -> Spec:
    """Return a field of numbers above zero on a logarithmic scale."""
    scale = {"type": "log", "nice": False, "padding": 14}
    axis = {"format": "~g", "labelOverlap": "greedy", **axis}
    return quantity(name, title=title, scale=scale, axis=axis)


def by_verdict(channel: Literal["color", "shape"]) -> Spec:
    """Return the verdict as colour or shape: a mark has both, so that none rests on colour alone."""
    there = "indexof(pluck(data('rows'), 'verdict'), '{0}') < 0 ? '' : '{0} '"
    drawn = " + ".join(f"({there.format(name)})" for name in VERDICTS)
    words = {name: words for name, (_, words, *_) in VERDICTS.items()}
    legend = {
        "title": None,
        "values": {"expr": f"split(trim({drawn}), ' ')"},
        "labelExpr": f"({json.dumps(words)})[datum.label]",
    }
    looks = [colour(tone) if channel == "color" else shape for *_, tone, shape in VERDICTS.values()]
    return nominal("verdict", scale={"domain": list(VERDICTS), "range": looks}, legend=legend)
