"""Heat maps of ratios by regime, by precision and by batch."""

import json
from typing import Any

from cudnn_sweep.analysis.report.figures import figure as vega
from cudnn_sweep.analysis.report.figures.palette import STEPS, colour

MUCH, SOME = 2.0, 1.25  # ratios at which the colours change
SIGNS = {name: sign for name, (sign, *_) in vega.VERDICTS.items()}
CHANGES = ("1 + min_effect", f"max({SOME}, 1 + min_effect)", f"max({MUCH}, 1 + min_effect)")
DOMAIN = [f"1 / ({change})" for change in reversed(CHANGES)] + [*CHANGES]
TONES = {"type": "threshold", "domain": [{"expr": text} for text in DOMAIN], "range": STEPS}
SLANTED = {"orient": "top", "labelLimit": 260, "labelAngle": {"expr": "narrow ? -90 : -20"}}
UPRIGHT = {"orient": "top", "labelAngle": 0}
BY_SIZE = {
    "window": [{"op": "dense_rank", "as": "place"}],
    "sort": [{"field": name} for name in ("family", "size_elements", "size")],
}


def _heat_map(x: vega.Spec, y: vega.Spec, *transform: vega.Spec, **about: Any) -> vega.Figure:
    """Return a heat map whose fields show ratios and the signs of verdicts."""
    known = vega.calculate(
        tone="datum.verdict === 'no_effect' ? 1 : datum.ratio",  # the ratio is only noise
        shown=f"format(datum.ratio, '.2f') + ' ' + ({json.dumps(SIGNS)})[datum.verdict]",
    )
    rectangle = {"type": "rect", "stroke": colour("paper"), "cursor": "pointer"}
    text = {"type": "text", "color": colour("ink"), "fontSize": 11, "cursor": "pointer"}
    tones = vega.quantity("tone", scale=TONES, legend=None)
    shown = {"text": vega.nominal("shown"), **vega.TOOLTIP}
    return vega.Figure(
        table="verdicts",
        needs=["ratio", y["field"]],
        compares=x["field"],
        rows=y["field"],
        drawing=vega.drawing(
            vega.marks(rectangle, [*transform, *known], x=x, y=y, color=tones, **vega.LABEL),
            vega.marks(text, [*transform, {"filter": "!dense"}, *known], x=x, y=y, **shown),
        ),
        **about,
    )


HEAT_MAP = _heat_map(
    vega.nominal("regime_label", title=None, axis=SLANTED),
    vega.line_each("row_label"),
    place=20,
    name="heat_map",
    title="Workload by regime",
    about="Rows are workloads that were timed in several regimes, and columns are regimes. A field "
    "shows the candidate's time divided by the baseline's, and the sign of the verdict: "
    f"{', '.join(vega.VERDICT_TEXTS.values())}. If there are many rows, fields show only colours.",
    columns=["row_label", "regime_label", "ratio", "verdict", "label"],
)
PRECISION_MAP = _heat_map(
    vega.nominal("precision_label", title=None, axis=SLANTED),
    vega.line_each("grid_label"),
    place=18,
    name="precision_map",
    title="Workload by precision",
    about="Rows are workloads, and columns are combinations of precision, GPU and versions. A "
    "workload is shown if it was timed with several combinations.",
    columns=["grid_label", "precision_label", "ratio", "verdict", "label"],
)
BATCH_MAP = _heat_map(
    {"field": "batch", "type": "ordinal", "title": "batch", "axis": UPRIGHT},
    vega.line_each("size_label", sort={"field": "place", "op": "min"}),
    BY_SIZE,
    place=22,
    name="batch_map",
    title="Size by batch",
    about="Each row is an input size, and each column is a batch. Sizes that were timed with only "
    "one batch are left out.",
    columns=["family", "size", "batch", "ratio", "verdict", "label"],
)
