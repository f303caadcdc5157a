"""Figure: a chart of a report, with its table, explanation and Vega-Lite spec.

The spec's expressions may use `min_effect`; `narrow`, which is true on a phone; and `dense`, which is true if there are
too many rows to give each a line with a name.
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
"""For each verdict: sign, text, name of a colour in the palette, shape of a mark."""
VERDICT_TEXTS = {name: f"{sign} {words}" for name, (sign, words, *_) in VERDICTS.items()}
ROWS: Spec = {"name": "rows"}  # filled by the page: the rows that the reader's filters leave
TITLE = {"titleColor": colour("quiet"), "titleFontSize": 12, "titleFontWeight": "normal"}
TEXT = TITLE | {"labelColor": colour("ink"), "labelFontSize": 12}
LINES = {name: colour("line") for name in ("gridColor", "domainColor", "tickColor")}
AXIS = {"gridOpacity": 0.6, "titlePadding": 8, "titleAnchor": {"expr": "narrow ? 'end' : 'middle'"}}
LEGEND = {"symbolSize": 80, "orient": "top", "labelLimit": 290}
STYLE = {
    "font": "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
    "background": "transparent",
    "axis": {**TEXT, **LINES, **AXIS},
    "legend": TEXT | LEGEND | {"columns": {"expr": "narrow ? 2 : 0"}},
    "view": {"stroke": None},
}
ROW_AXIS = {
    "ticks": False,
    "labelLimit": 0,
    "labelOverlap": "greedy",  # as many names as there is room for
    "labelSeparation": 3,
    "labelExpr": "split(trim(replace(datum.label, regexp(narrow ? '(.{1,24})( |$)' : '(.{1,60})( |$)', 'g'), '$1\\n')), '\\n')",
    "labelLineHeight": 13,
}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Figure:
    """A chart. A report shows every Figure that a file in this folder declares."""

    place: int
    """Number that orders the charts, the lowest first."""
    name: str
    title: str
    about: str
    """Explanation of the chart for readers of the report."""
    table: str
    """Name of the table, among the page's tables, that the chart draws."""
    needs: Sequence[str]
    """Fields that a row must have to be drawn."""
    compares: str | None = None
    """Field in which a line needs two values at least; lines with one, or the whole chart, are left out."""
    columns: Sequence[str]
    """Fields that the chart's tooltip and the chart's table show."""
    rows: str | None = None
    """Field whose values have a line each and so make the chart's height; None: fixed height."""
    drawing: Spec


def drawing(*layers: Spec) -> Spec:
    """Return a spec that draws the layers over each other, in the look that all charts share."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "width": "container",
        "config": STYLE,
        "layer": list(layers),
    }


def marks(mark: Spec, transform: Sequence[Spec] = (), data: Spec = ROWS, **encoding: Any) -> Spec:
    """Return a layer with one mark for each row of the data after `transform`."""
    return {"data": data, "transform": list(transform), "mark": mark, "encoding": encoding}


def nominal(name: str, **more: Any) -> Spec:
    return {"field": name, "type": "nominal", **more}


def quantity(name: str, **more: Any) -> Spec:
    return {"field": name, "type": "quantitative", **more}


def line_each(name: str, **more: Any) -> Spec:
    """Return an axis on which each value of the field `name` has a line with a name."""
    return nominal(name, title=None, axis=ROW_AXIS, **more)


def calculate(**expressions: str) -> list[Spec]:
    return [{"calculate": text, "as": name} for name, text in expressions.items()]


TOOLTIP: Spec = {"tooltip": nominal("label")}
LABEL: Spec = TOOLTIP | {"description": nominal("label")}


def dashed(**encoding: Any) -> Spec:
    """Return a layer with one dashed grey line where `encoding` says, whatever the data are."""
    line = {"type": "rule", "color": colour("quiet"), "strokeDash": [3, 3]}
    return marks(line, data={"values": [{}]}, **encoding)


def points(transform: Sequence[Spec] = (), **encoding: Any) -> Spec:
    """Return a layer with a mark for each row, styled by verdict; a click on it shows the trials of the row's cell."""
    size = {"expr": "dense ? 22 : 85"}
    mark = {"type": "point", "filled": True, "size": size, "opacity": 1, "cursor": "pointer"}
    looks = {"color": by_verdict("color"), "shape": by_verdict("shape")}
    return marks(mark, transform, **LABEL, **looks, **encoding)


def log_scaled(name: str, title: str, domain: Sequence[Any] = (), **axis: Any) -> Spec:
    """Return the encoding of a field of numbers above zero on a logarithmic scale."""
    ends = {"domain": domain} if domain else {"padding": 14}
    scale = {"type": "log", "nice": False, **ends}
    axis = {"format": "~g", "labelOverlap": "greedy", **axis}
    return quantity(name, title=title, scale=scale, axis=axis)


def by_verdict(channel: Literal["color", "shape"]) -> Spec:
    """Return the encoding of the verdict as colour or shape; marks use both, for the colour-blind."""
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
