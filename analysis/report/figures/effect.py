"""The picture of the first screen: each cell's ratio with its interval, from gain to loss."""

from typing import Any

from cudnn_sweep.analysis.report.figures.figure import (
    Figure,
    Spec,
    calculate,
    dashed,
    drawing,
    marks,
    nominal,
    quantity,
    ratios,
    verdict_colour,
    verdict_marks,
)
from cudnn_sweep.analysis.report.figures.palette import colour

WIDEST = 4  # an interval is cut where it is that many times its ratio, or else nothing else is seen
DEVICE_BELOW_PX = 8
MARK, DENSE_MARK = 85, 22  # square pixels
SORTED = {"field": "ratio", "op": "min", "order": "ascending"}
TITLE = "← faster\u2003candidate time / baseline time\u2003slower →"
# Where lines are close together as many have their names as there is room for.
AXIS = {"labelLimit": 0, "ticks": False, "labelOverlap": "greedy", "labelSeparation": 3}
ROW = nominal("short_label", sort=SORTED, axis=AXIS, title=None)
NAMELESS_ROW = nominal("short_label", sort=SORTED, axis=None)


def _layers(y: Spec, size: int) -> list[Spec]:
    band = {"type": "rect", "color": colour("band"), "opacity": 1}
    ends = calculate(**{"from": "1 / (1 + min_effect)", "to": "1 + min_effect"})
    ends_of_band: Spec = {"x": quantity("from"), "x2": {"field": "to"}}
    return [
        marks(band, ends, {"values": [{}]}, **ends_of_band),
        dashed(x={"datum": 1}),
        _interval({"strokeWidth": 2}, "ratio", y=y, color=verdict_colour(), title=TITLE),
        verdict_marks(size, y=y, x=ratios("x", "ratio", TITLE, orient="top")),
    ]


def _device_layers(y: Spec) -> list[Spec]:
    """The time on the GPU alone stands below the wall time, where it is known."""
    look = {"color": colour("quiet"), "yOffset": DEVICE_BELOW_PX}
    mark = {"type": "point", "filled": True, "size": 24, "opacity": 1, **look}
    known = [{"filter": "isValid(datum.device_ratio)"}]  # Vega takes null for 0
    return [
        _interval(look, "device_ratio", y=y),
        marks(mark, known, y=y, x=quantity("device_ratio")),
    ]


def _interval(look: Spec, ratio: str, title: str | None = None, **encoding: Any) -> Spec:
    low, high = f"datum.{ratio}_low", f"datum.{ratio}_high"
    ends = calculate(
        low=f"max({low}, datum.{ratio} / {WIDEST})", high=f"min({high}, datum.{ratio} * {WIDEST})"
    )
    known = {"filter": f"isValid(datum.{ratio}) && isValid({low}) && isValid({high})"}
    x = quantity("low", title=title) if title else quantity("low")
    return marks({"type": "rule", **look}, [*ends, known], x=x, x2={"field": "high"}, **encoding)


# For narrow screens: the name stands above its line.
NAMES = marks(
    {
        "type": "text",
        "align": "left",
        "dy": -13,
        "fontSize": 11,
        "color": colour("ink"),
        "limit": 340,
    },
    y=NAMELESS_ROW,
    x={"value": 0},
    text=nominal("short_label"),
)
EFFECT = Figure(
    place=10,
    name="effect",
    title="Effect by cell",
    about="Candidate time divided by baseline time on a log scale, the largest gain first; left "
    "of 1 the candidate is faster. The small grey mark below a cell's own is the time on the GPU "
    "alone; a loop that waits for the CPU gains less than it. Lines are 95% intervals, cut where "
    "they are wider than the chart can hold. The band is the minimum effect either way: what "
    "lies within it makes no difference that counts. Select a mark for its cell's trials.",
    table="verdicts",
    needs=["ratio"],
    columns=[
        "label",
        "ratio",
        "ratio_low",
        "ratio_high",
        "verdict",
        "device_ratio",
        "baseline_ms",
        "candidate_ms",
        "blocks",
    ],
    rows="short_label",
    drawings={
        "wide": drawing(*_layers(ROW, MARK), *_device_layers(ROW), height={"step": 24}),
        "narrow": drawing(
            *_layers(NAMELESS_ROW, MARK),
            *_device_layers(NAMELESS_ROW),
            NAMES,
            height={"step": 36},
        ),
        "dense": drawing(*_layers(ROW, DENSE_MARK), height={"step": 4}),
    },
)
