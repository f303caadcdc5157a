"""Heat maps of the ratio: workloads by precision and by shape regime, input sizes by batch."""

import json

from cudnn_sweep.analysis.report.figures.figure import (
    LABEL,
    TOOLTIP,
    VERDICT_TEXTS,
    VERDICTS,
    Figure,
    Spec,
    calculate,
    drawing,
    line_each,
    marks,
    nominal,
    quantity,
)
from cudnn_sweep.analysis.report.figures.palette import STEPS, colour

MUCH, SOME = 2.0, 1.25  # ratios at which the colours change
SIGNS = {name: sign for name, (sign, *_) in VERDICTS.items()}
CHANGES = ("1 + min_effect", f"max({SOME}, 1 + min_effect)", f"max({MUCH}, 1 + min_effect)")
TONES = {
    "type": "threshold",
    "domain": [
        *({"expr": f"1 / ({change})"} for change in reversed(CHANGES)),
        *({"expr": change} for change in CHANGES),
    ],
    "range": STEPS,
}
SLANTED = {"orient": "top", "labelLimit": 260, "labelAngle": {"expr": "narrow ? -90 : -20"}}


def _fields(x: Spec, y: Spec, *transform: Spec) -> Spec:
    """Draw a rectangle for each `x` and `y`, coloured by ratio; its text is ratio and verdict's sign."""
    tone = calculate(tone="datum.verdict === 'no_effect' ? 1 : datum.ratio")  # its ratio is noise
    shown = calculate(
        shown=f"format(datum.ratio, '.2f') + ' ' + ({json.dumps(SIGNS)})[datum.verdict]"
    )
    return drawing(
        marks(
            {"type": "rect", "stroke": colour("paper"), "cursor": "pointer"},
            [*transform, *tone],
            x=x,
            y=y,
            color=quantity("tone", scale=TONES, legend=None),
            **LABEL,
        ),
        marks(
            {"type": "text", "color": colour("ink"), "fontSize": 11, "cursor": "pointer"},
            [*transform, {"filter": "!dense"}, *shown],
            x=x,
            y=y,
            text=nominal("shown"),
            **TOOLTIP,
        ),
    )


HEAT_MAP = Figure(
    place=20,
    name="heat_map",
    title="Workload by regime",
    about="The same ratios, a column for each shape regime, of the workloads that were timed in several. Each field shows the ratio and the sign of its "
    f"verdict: {', '.join(VERDICT_TEXTS.values())}. If there are many rows, they have colours alone.",
    table="verdicts",
    needs=["ratio"],
    compares="regime_label",
    columns=["row_label", "regime_label", "ratio", "verdict", "label"],
    rows="row_label",
    drawing=_fields(
        nominal("regime_label", title=None, axis=SLANTED),
        line_each("row_label"),
    ),
)
PRECISION_MAP = Figure(
    place=18,
    name="precision_map",
    title="Workload by precision",
    about="The same ratios, a column for each precision, GPU and version, of the workloads that were timed in several.",
    table="verdicts",
    needs=["ratio"],
    compares="precision_label",
    columns=["grid_label", "precision_label", "ratio", "verdict", "label"],
    rows="grid_label",
    drawing=_fields(
        nominal("precision_label", title=None, axis=SLANTED),
        line_each("grid_label"),
    ),
)
BATCH_MAP = Figure(
    place=22,
    name="batch_map",
    title="Size by batch",
    about="The same ratios of the workloads that were timed at several batches or sizes of input: a row "
    "for each size, a column for each batch.",
    table="verdicts",
    needs=["ratio", "size_label"],
    compares="batch",
    columns=["family", "size", "batch", "ratio", "verdict", "label"],
    rows="size_label",
    drawing=_fields(
        {
            "field": "batch",
            "type": "ordinal",
            "title": "batch",
            "axis": {"orient": "top", "labelAngle": 0},
        },
        line_each("size_label", sort={"field": "place", "op": "min"}),
        {
            "window": [{"op": "dense_rank", "as": "place"}],
            "sort": [{"field": name} for name in ("family", "size_elements", "size")],
        },
    ),
)
