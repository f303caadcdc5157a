"""The chart of what each cell's convolutions reach, under the roofline of its GPU and precision."""

from cudnn_sweep.analysis.report.figures.figure import (
    Figure,
    Spec,
    by_verdict,
    calculate,
    drawing,
    log_scaled,
    marks,
    nominal,
    points,
    quantity,
)
from cudnn_sweep.analysis.report.figures.palette import colour


def _aggregated(by: list[str], **fields: str) -> Spec:
    """Return a transform that has the largest value of each field for each group."""
    parts = [{"op": "max", "field": field, "as": name} for name, field in fields.items()]
    return {"aggregate": parts, "groupby": by}


ENDS = [{"op": op, "field": "operations_per_byte", "as": op} for op in ("min", "max")]
ROOF: list[Spec] = [
    {"joinaggregate": ENDS},
    _aggregated(["gpu", "precision", "min", "max"], flat="matmul_tflops", copy="copy_gbps"),
    *calculate(
        at="[datum.min, clamp(1000 * datum.flat / datum.copy, datum.min, datum.max), datum.max]"
    ),
    {"flatten": ["at"]},
    *calculate(height="min(datum.flat, datum.at * datum.copy / 1000)"),
]
REACHED = calculate(
    baseline_reached="datum.convolution_flops / 1e9 / datum.baseline_ms",
    reached="datum.convolution_flops / 1e9 / datum.candidate_ms",
)
X = log_scaled("operations_per_byte", "convolutions' operations per byte", grid=True)
AT = quantity("at", title="convolutions' operations per byte")
QUIET = {"color": colour("quiet")}
OF_VERDICT = {"x": X, "color": by_verdict("color")}
ROOFLINE = Figure(
    place=40,
    name="roofline",
    title="Speed-up under the hardware's limit",
    about="Operations of a cell's convolutions in the time of its whole step, against their operations per byte. Marks "
    "are the candidate, the other ends of their lines the baseline. Grey lines are the limits that calibration reached "
    "on each GPU in each precision: a copy where they rise, a matrix product where they are flat. The farther below, "
    "the more of the time is other work, launches or slow kernels.",
    table="verdicts",
    needs=["ratio", "operations_per_byte", "convolution_flops", "matmul_tflops", "copy_gbps"],
    compares="operations_per_byte",
    columns=[
        *("label", "operations_per_byte", "baseline_ms", "candidate_ms", "ratio", "verdict"),
        *("matmul_tflops", "copy_gbps"),
    ],
    drawing=drawing(
        marks(
            {"type": "line", **QUIET},
            ROOF,
            x=AT,
            y=quantity("height"),
            detail=[nominal("gpu"), nominal("precision")],
        ),
        marks(
            {"type": "text", "align": "right", "dy": -6, **QUIET},
            [
                *ROOF,
                {"filter": "datum.at === datum.max"},
                *calculate(kind="test(/16/, datum.precision) ? '16 bit' : datum.precision"),
                _aggregated(["kind", "at"], height="height"),
            ],
            x=AT,
            y=quantity("height"),
            text=nominal("kind"),
        ),
        marks(
            {"type": "rule", "strokeWidth": 2},
            REACHED,
            y=quantity("baseline_reached"),
            y2={"field": "reached"},
            **OF_VERDICT,
        ),
        points(
            REACHED,
            y=log_scaled("reached", "10\u00b9\u00b2 operations a second", grid=True),
            shape=by_verdict("shape"),
            **OF_VERDICT,
        ),
    ),
)
