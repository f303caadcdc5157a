"""A chart that compares the speed of convolutions with the limits of the GPU (roofline)."""

from cudnn_sweep.analysis.report.figures import figure as vega
from cudnn_sweep.analysis.report.figures.palette import colour


def _aggregated(by: list[str], **fields: str) -> vega.Spec:
    """Return a transform that groups rows by `by` and keeps the largest value of each field."""
    parts = [{"op": "max", "field": field, "as": name} for name, field in fields.items()]
    return {"aggregate": parts, "groupby": by}


ENDS = [{"op": op, "field": "operations_per_byte", "as": op} for op in ("min", "max")]
ROOF: list[vega.Spec] = [
    {"joinaggregate": ENDS},
    _aggregated(["gpu", "precision", "min", "max"], flat="matmul_tflops", copy="copy_gbps"),
    *vega.calculate(
        at="[datum.min, clamp(1000 * datum.flat / datum.copy, datum.min, datum.max), datum.max]"
    ),
    {"flatten": ["at"]},
    *vega.calculate(height="min(datum.flat, datum.at * datum.copy / 1000)"),
]
NAMED = [
    *ROOF,
    {"filter": "datum.at === datum.max"},
    *vega.calculate(kind="test(/16/, datum.precision) ? '16 bit' : datum.precision"),
    _aggregated(["kind", "at"], height="height"),
]
REACHED = vega.calculate(
    baseline_reached="datum.convolution_flops / 1e9 / datum.baseline_ms",
    reached="datum.convolution_flops / 1e9 / datum.candidate_ms",
)
TITLE = "convolutions' operations per byte"
SPEED = "10\u00b9\u00b2 operations per second"
X = vega.log_scaled("operations_per_byte", TITLE, grid=True)
ON_ROOF = {"x": vega.quantity("at", title=TITLE), "y": vega.quantity("height")}
FROM_BASELINE = {"y": vega.quantity("baseline_reached"), "y2": {"field": "reached"}}
LINE = {"type": "line", "color": colour("quiet")}
NAME = {"type": "text", "align": "right", "dy": -6, "color": colour("quiet")}
RULE = {"type": "rule", "strokeWidth": 2}
ROOFLINE = vega.Figure(
    place=40,
    name="roofline",
    title="Speed compared with the hardware's limit",
    about="Speed of convolutions (their operations divided by the time of the whole step) against "
    "their operations per byte. A line leads from the baseline to the candidate, which has a mark. "
    "A grey line is the limit of a GPU in one precision, measured by a copy (rising part) and by a "
    "matrix product (flat part). Below the limit, time goes to other work or to slow kernels.",
    table="verdicts",
    needs=["ratio", "operations_per_byte", "convolution_flops", "matmul_tflops", "copy_gbps"],
    compares="operations_per_byte",
    columns=[
        *("label", "operations_per_byte", "baseline_ms", "candidate_ms", "ratio", "verdict"),
        *("matmul_tflops", "copy_gbps"),
    ],
    drawing=vega.drawing(
        vega.marks(LINE, ROOF, **ON_ROOF, detail=[vega.nominal("gpu"), vega.nominal("precision")]),
        vega.marks(NAME, NAMED, **ON_ROOF, text=vega.nominal("kind")),
        vega.marks(RULE, REACHED, x=X, **FROM_BASELINE, color=vega.by_verdict("color")),
        vega.points(REACHED, x=X, y=vega.log_scaled("reached", SPEED, grid=True)),
    ),
)
