"""What the first calls cost, by how many shapes there are, and after how many iterations it is paid back."""

from cudnn_sweep.analysis.report.figures.figure import (
    LABEL,
    TOOLTIP,
    Figure,
    Spec,
    calculate,
    dashed,
    drawing,
    marks,
    middle_cut,
    nominal,
    quantity,
)
from cudnn_sweep.analysis.report.figures.palette import CATEGORIES

MOST_CURVES = 8  # more cannot be told apart
MOST_EXPONENT = 7  # 10 million iterations: days
STEP = 0.05  # of the exponent, from one point of a curve to the next
SHAPES = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256]
SECONDS = [sign * 10**n for n in range(-1, 7) for sign in (-1, 1)]
TICKS = [round(digit * 10.0**exponent, 9) for exponent in range(-6, 7) for digit in (1, 2, 5)]

LARGEST: list[Spec] = [
    {
        "window": [{"op": "row_number", "as": "rank"}],
        "sort": [{"field": "effect", "order": "descending"}],
    },
    {"filter": f"datum.rank <= {MOST_CURVES}"},
]
CROSSED = {
    "filter": f"datum.break_even_iterations >= 1 && datum.break_even_iterations <= 1e{MOST_EXPONENT}"
}
X = quantity(
    "iterations",
    scale={"type": "log", "domain": [1, 10**MOST_EXPONENT]},
    axis={"format": "~s", "tickCount": 8, "grid": False},
    title="iterations",
)
Y = quantity(
    "saved_s",
    scale={"type": "symlog", "constant": 0.01, "nice": False, "padding": 10},
    axis={
        "labelExpr": "format(datum.value, ',~g')",
        "values": [0, *SECONDS],
        "labelOverlap": "greedy",
    },
    title="seconds saved",
)
COLOUR = nominal(
    "short_label",
    scale={"range": CATEGORIES},
    legend={
        "orient": "bottom",
        "columns": 1,
        "title": None,
        "symbolOpacity": 1,
        "labelExpr": middle_cut(36),
    },
)
ZERO = {"datum": 0}
CURVES = marks(
    {"type": "line", "strokeWidth": 2, "cursor": "pointer"},
    [
        *LARGEST,
        *calculate(exponent=f"sequence(0, {MOST_EXPONENT + STEP}, {STEP})"),
        {"flatten": ["exponent"]},
        *calculate(
            iterations="pow(10, datum.exponent)",
            saved_s="(datum.gain_ms * datum.iterations - datum.tuning_ms) / 1000",
        ),
    ],
    x=X,
    y=Y,
    color=COLOUR,
    detail=nominal("cell"),
    **TOOLTIP,
)
INTERVALS = marks(
    {"type": "rule", "strokeWidth": 4, "opacity": 0.5},
    [
        *LARGEST,
        CROSSED,
        *calculate(
            iterations="max(1, datum.break_even_low)",
            last=f"min(1e{MOST_EXPONENT}, datum.break_even_high)",
        ),
        {"filter": "isValid(datum.break_even_low) && isValid(datum.break_even_high)"},
    ],
    x=X,
    x2={"field": "last"},
    y=ZERO,
    color=COLOUR,
)
DOTS = marks(
    {"type": "point", "filled": True, "size": 90, "opacity": 1, "cursor": "pointer"},
    [*LARGEST, CROSSED, *calculate(iterations="datum.break_even_iterations")],
    x=X,
    y=ZERO,
    color=COLOUR,
    **LABEL,
)


def _break_even(place: int, compute_cache: str) -> Figure:
    return Figure(
        place=place,
        name=f"break_even_{compute_cache}",
        title=f"Break-even point, {compute_cache} compute cache",
        about="Seconds saved by the candidate after so many iterations, its extra cold cost "
        f"subtracted, for the {MOST_CURVES} cells with the largest effect. A curve starts below "
        "zero by that cost; a dot with its 95% interval marks where it crosses.",
        table="paybacks",
        needs=["gain_ms", "tuning_ms"],
        only={"compute_cache": compute_cache, "is_certain": "yes"},
        columns=[
            "label",
            "outcome",
            "break_even_iterations",
            "break_even_low",
            "break_even_high",
            "tuning_ms",
            "gain_ms",
        ],
        half=True,
        drawings={"wide": drawing(dashed(y=ZERO), CURVES, INTERVALS, DOTS)},
    )


EMPTY, WARM = _break_even(30, "empty"), _break_even(40, "warm")

COLDS: Spec = {
    "x": quantity(
        "shapes",
        scale={"type": "log", "nice": False, "padding": 20},
        axis={"format": "d", "grid": False, "values": SHAPES},
        title="distinct shapes",
    ),
    "y": quantity(
        "cold_s",
        scale={"type": "log", "padding": 14, "nice": False},
        axis={"format": "~g", "values": TICKS, "labelOverlap": "greedy"},
        title="seconds",
    ),
    "color": nominal("config", scale={"range": CATEGORIES}, title=None),
}
JOINED = [nominal("row_label"), nominal("compute_cache")]
COLD_COST = Figure(
    place=60,
    name="cold_cost",
    title="Cold cost by number of shapes",
    about="Seconds that the first calls of all distinct shapes took, median over processes, by "
    "config and by the state of CUDA's cache of compiled kernels. A line joins the regimes of "
    "one workload.",
    table="cold_costs",
    needs=["cold_s", "shapes"],
    compares="shapes",
    columns=["label", "config", "compute_cache", "shapes", "cold_s"],
    half=True,
    drawings={
        "wide": drawing(
            marks(
                {"type": "line", "strokeWidth": 1, "opacity": 0.45},
                **COLDS,
                **TOOLTIP,
                detail=JOINED,
            ),
            marks(
                {"type": "point", "size": 60, "strokeWidth": 2, "cursor": "pointer"},
                **COLDS,
                **LABEL,
                shape=nominal("compute_cache", title=None),
            ),
        )
    },
)
