"""The chart of break-even points: after how many iterations the gain has paid the extra cold cost."""

from cudnn_sweep.analysis.report.figures.figure import (
    Figure,
    calculate,
    drawing,
    line_each,
    log_scaled,
    marks,
    nominal,
    points,
    quantity,
)
from cudnn_sweep.analysis.report.figures.palette import CATEGORIES

TITLE = "iterations"
Y = line_each("short_label", sort={"field": "break_even_iterations", "op": "min"})
CACHE = nominal("compute_cache", title=None, scale={"range": CATEGORIES})
BREAK_EVEN = Figure(
    place=30,
    name="break_even",
    title="Break-even point",
    about="The iterations after which the candidate's gain has paid for its extra cold cost, with their 95% interval, "
    "by the state of CUDA's cache of compiled kernels; the earliest first. A square is a candidate that costs less to "
    "start and is ahead until that point. Cells without a certain gain or loss have no mark.",
    table="paybacks",
    needs=["break_even_iterations"],
    columns=[
        *("label", "compute_cache", "outcome", "break_even_iterations", "break_even_low"),
        *("break_even_high", "tuning_ms", "gain_ms"),
    ],
    rows="short_label",
    drawing=drawing(
        marks(
            {"type": "rule", "strokeWidth": 2},
            [
                {"filter": "isValid(datum.break_even_low) && isValid(datum.break_even_high)"},
                *calculate(low="max(1, datum.break_even_low)"),
            ],
            y=Y,
            x=quantity("low", title=TITLE),
            x2={"field": "break_even_high"},
            color=CACHE,
        ),
        points(
            calculate(iterations="max(1, datum.break_even_iterations)"),
            y=Y,
            x=log_scaled("iterations", TITLE, orient="top", format="~s", grid=False),
            color=CACHE,
            shape=nominal(
                "outcome",
                scale={
                    "domain": ["after", "at once", "until"],
                    "range": ["circle", "circle", "square"],
                },
                legend=None,
            ),
        ),
    ),
)
