"""The report's first chart: each cell's ratio with its interval, from gain to loss."""

from typing import Any

from cudnn_sweep.analysis.report.figures.figure import (
    Figure,
    Spec,
    by_verdict,
    calculate,
    dashed,
    drawing,
    line_each,
    log_scaled,
    marks,
    points,
    quantity,
)
from cudnn_sweep.analysis.report.figures.palette import colour

WIDEST = 4  # times the ratio: wider intervals are cut, as the rest would be too small to see
TITLE = "← faster\u2003candidate time / baseline time\u2003slower →"
Y = line_each("short_label", sort={"field": "ratio", "op": "min", "order": "ascending"})
QUIET = {"color": colour("quiet"), "yOffset": 8}
BAND = marks(
    {"type": "rect", "color": colour("band"), "opacity": 1},
    calculate(**{"from": "1 / (1 + min_effect)", "to": "1 + min_effect"}),
    {"values": [{}]},
    x=quantity("from"),
    x2={"field": "to"},
)


def _interval(look: Spec, ratio: str, where: str = "true", **encoding: Any) -> Spec:
    low, high = f"datum.{ratio}_low", f"datum.{ratio}_high"
    ends = calculate(
        low=f"max({low}, datum.{ratio} / {WIDEST})", high=f"min({high}, datum.{ratio} * {WIDEST})"
    )
    known = {"filter": f"{where} && isValid(datum.{ratio}) && isValid({low}) && isValid({high})"}
    x = quantity("low", title=TITLE)
    return marks(
        {"type": "rule", **look}, [*ends, known], y=Y, x=x, x2={"field": "high"}, **encoding
    )


EFFECT = Figure(
    place=10,
    name="effect",
    title="Effect by cell",
    about="Candidate time divided by baseline time on a log scale, the largest gain first; left "
    "of 1 the candidate is faster. The small grey mark below a cell's own is the ratio of device "
    "times; a CPU-bound loop gains less than that. Lines are 95% intervals, cut where "
    "they are wider than the chart can hold. The band is the minimum effect either way: what "
    "lies within it makes no difference that counts. Select a mark for its cell's trials.",
    table="verdicts",
    needs=["ratio"],
    columns=[
        *("label", "ratio", "ratio_low", "ratio_high", "verdict"),
        *("device_ratio", "baseline_ms", "candidate_ms", "blocks"),
    ],
    rows="short_label",
    drawing=drawing(
        BAND,
        dashed(x={"datum": 1}),
        _interval({"strokeWidth": 2}, "ratio", color=by_verdict("color")),
        points(
            y=Y,
            x=log_scaled("ratio", TITLE, orient="top"),
            color=by_verdict("color"),
            shape=by_verdict("shape"),
        ),
        _interval(QUIET, "device_ratio", "!dense"),
        marks(
            {"type": "point", "filled": True, "size": 24, "opacity": 1, **QUIET},
            [{"filter": "!dense && isValid(datum.device_ratio)"}],  # Vega takes null for 0
            y=Y,
            x=quantity("device_ratio"),
        ),
    ),
)
