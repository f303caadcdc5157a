"""Defines Figure, which is a chart of a report, and helpers for its Vega-Lite spec.

A spec can use `min_effect`, `narrow` (true on a phone) and `dense` (true if there are too many rows
to show their names)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from cudnn_sweep.analysis.report.figures.palette import colour

Spec: TypeAlias = dict[str, Any]
"""A Vega-Lite spec, or a part of one."""

RING = "M-1,0A1,1,0,1,1,1,0A1,1,0,1,1,-1,0M-.5,0A.5,.5,0,1,0,.5,0A.5,.5,0,1,0,-.5,0"
VERDICTS = {
    "fails": ("✗", "fails", "fails", "diamond"),
    "helps": ("◀", "helps", "helps", "triangle-left"),
    "hurts": ("▶", "hurts", "hurts", "triangle-right"),
    "equivalent": ("■", "equivalent", "equivalent", "square"),
    "inconclusive": ("●", "inconclusive", "inconclusive", "circle"),
    "so_far_faster": ("◁", "so far faster", "less_3", "M.6,-.9L-.8,0L.6,.9L.6,.4L0,0L.6,-.4Z"),
    "so_far_slower": ("▷", "so far slower", "more_3", "M-.6,-.9L.8,0L-.6,.9L-.6,.4L0,0L-.6,-.4Z"),
    "undecided": ("○", "not decided yet", "quiet", RING),
    "no_effect": ("✚", "no effect", "no_effect", "cross"),
    "not_measured": ("–", "not measured", "quiet", "stroke"),
}
"""Sign, text, colour name and mark shape of each verdict."""
VERDICT_TEXTS = {name: f"{sign} {words}" for name, (sign, words, *_) in VERDICTS.items()}
ROWS: Spec = {"name": "rows"}  # the page adds the rows that pass the filters
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
    "labelOverlap": "greedy",  # shows as many names as fit
    "labelSeparation": 3,
    "labelExpr": "split(trim(replace(datum.label, regexp(narrow ? '(.{1,24})( |$)' : '(.{1,60})( |$)', 'g'), '$1\\n')), '\\n')",
    "labelLineHeight": 13,
}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Figure:
    """A chart of a report. Reports show every Figure that a module in this folder defines."""

    place: int
    """Position among the charts. The chart with the lowest number comes first."""
    name: str
    title: str
    about: str
    table: str
    needs: Sequence[str]
    """Required fields. A row of the table that lacks one of them is not drawn."""
    compares: str | None = None
    """Field whose values are compared. A chart row with only one value is not drawn."""
    columns: Sequence[str]
    """Fields in the tooltip and in the table below the chart."""
    rows: str | None = None
    """Field that has a chart row for each value. If None, the height of the chart is fixed."""
    drawing: Spec


def drawing(*layers: Spec) -> Spec:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "width": "container",
        "config": STYLE,
        "layer": list(layers),
    }


def marks(mark: Spec, transform: Sequence[Spec] = (), data: Spec = ROWS, **encoding: Any) -> Spec:
    """Return a layer with a mark for each row of the transformed data."""
    return {"data": data, "transform": list(transform), "mark": mark, "encoding": encoding}


def nominal(name: str, **more: Any) -> Spec:
    return {"field": name, "type": "nominal", **more}


def quantity(name: str, **more: Any) -> Spec:
    return {"field": name, "type": "quantitative", **more}


def line_each(name: str, **more: Any) -> Spec:
    return nominal(name, title=None, axis=ROW_AXIS, **more)


def calculate(**expressions: str) -> list[Spec]:
    return [{"calculate": text, "as": name} for name, text in expressions.items()]


def known(*names: str) -> list[Spec]:
    return [{"filter": f"isValid(datum.{name})"} for name in names]


TOOLTIP: Spec = {"tooltip": nominal("label")}
LABEL: Spec = TOOLTIP | {"description": nominal("label")}


def dashed(**encoding: Any) -> Spec:
    line = {"type": "rule", "color": colour("quiet"), "strokeDash": [3, 3]}
    return marks(line, data={"values": [{}]}, **encoding)


def points(transform: Sequence[Spec] = (), **encoding: Any) -> Spec:
    """Return a layer with a point for each row. Its colour and shape show the verdict."""
    size = {"expr": "dense ? 22 : 85"}
    mark = {"type": "point", "filled": True, "size": size, "opacity": 1, "cursor": "pointer"}
    looks = {"color": by_verdict("color"), "shape": by_verdict("shape")}
    return marks(mark, transform, **LABEL, **looks, **encoding)


def log_scaled(name: str, title: str, domain: Sequence[Any] = (), **axis: Any) -> Spec:
    ends = {"domain": domain} if domain else {"padding": 14}
    scale = {"type": "log", "nice": False, **ends}
    axis = {"format": "~g", "labelOverlap": "greedy", **axis}
    return quantity(name, title=title, scale=scale, axis=axis)


def by_verdict(channel: Literal["color", "shape"]) -> Spec:
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
