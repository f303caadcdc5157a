"""Problems by regimes and sizes by batches, coloured by the ratio."""

from cudnn_sweep.analysis.report.figures.figure import (
    LABEL,
    LABEL_PX,
    LABELLED_ROWS,
    TOOLTIP,
    Figure,
    Spec,
    calculate,
    drawing,
    marks,
    named_axis,
    nominal,
    quantity,
)
from cudnn_sweep.analysis.report.figures.palette import STEPS, colour

MUCH, SOME = 2.0, 1.25  # ratios at which the colours change
SIGNS = {
    "fails": "✗",
    "helps": "◀",
    "hurts": "▶",
    "equivalent": "=",
    "inconclusive": "?",
    "so_far_faster": "◁",
    "so_far_slower": "▷",
    "undecided": "○",
    "no_effect": "·",
}
SIGNS_IN_WORDS = (
    "◀ helps, ▶ hurts, = equivalent, ? inconclusive, ◁ ▷ ○ so far, ✗ fails, · no effect"
)
CHANGES = ("1 + min_effect", f"max({SOME}, 1 + min_effect)", f"max({MUCH}, 1 + min_effect)")
TONES = {
    "type": "threshold",
    "domain": [
        *({"expr": f"1 / ({each})"} for each in reversed(CHANGES)),
        *({"expr": each} for each in CHANGES),
    ],
    "range": STEPS,
}
STRIP = {"step": 4}
FIELD = {"step": 26}


def _coloured(x: Spec, y: Spec, *transform: Spec) -> Spec:
    """A rectangle a row and column, coloured by its ratio."""
    look = {"type": "rect", "stroke": colour("paper"), "strokeWidth": 2, "cursor": "pointer"}
    tone = calculate(tone="datum.verdict === 'no_effect' ? 1 : datum.ratio")  # its ratio is noise
    color = quantity("tone", scale=TONES, legend=None)
    return marks(look, [*transform, *tone], x=x, y=y, color=color, **LABEL)


def _fields(x: Spec, y: Spec, *transform: Spec) -> Spec:
    """With the ratio and the sign of its verdict in each field."""
    signs = " ".join(f"datum.verdict == '{name}' ? ' {sign}' :" for name, sign in SIGNS.items())
    shown = calculate(shown=f"format(datum.ratio, '.2f') + ({signs} '')")
    look = {"type": "text", "color": colour("ink"), "fontSize": 11, "cursor": "pointer"}
    text = marks(look, [*transform, *shown], x=x, y=y, text=nominal("shown"), **TOOLTIP)
    return drawing(_coloured(x, y, *transform), text, height=FIELD)


def _regimes(angle: int) -> Spec:
    return nominal("regime_label", title=None, axis={"orient": "top", "labelAngle": angle})


def _workloads(label_px: int) -> Spec:
    return nominal("row_label", title=None, axis=named_axis(label_px))


def _batches(label_px: int) -> Spec:
    order = [{"field": name} for name in ("family", "size_elements", "size")]
    place = {"window": [{"op": "dense_rank", "as": "place"}], "sort": order}
    sort = {"field": "place", "op": "min"}
    rows = nominal("size_label", title=None, axis=named_axis(label_px), sort=sort)
    across = {"orient": "top", "labelAngle": 0}
    return _fields(
        {"field": "batch", "type": "ordinal", "title": "batch", "axis": across}, rows, place
    )


HEAT_MAP = Figure(
    place=20,
    name="heat_map",
    title="Workload by regime",
    about="The same ratios, so that rows compare how shapes arrive. Each field shows the ratio "
    f"and its verdict: {SIGNS_IN_WORDS}. More than {LABELLED_ROWS} rows have colours alone.",
    table="verdicts",
    needs=["ratio"],
    compares="regime_label",
    columns=["row_label", "regime_label", "ratio", "verdict", "label"],
    rows="row_label",
    drawings={
        "wide": _fields(_regimes(-20), _workloads(LABEL_PX)),
        "dense": drawing(
            _coloured(_regimes(-20), nominal("row_label", title=None, axis=None)), height=STRIP
        ),
        "narrow": _fields(_regimes(-90), _workloads(150)),
    },
)
BATCH_MAP = Figure(
    place=22,
    name="batch_map",
    title="Size by batch",
    about="The same ratios of the workloads that were timed at several batches or sizes of input: a row "
    f"for each size, a column for each batch. Signs: {SIGNS_IN_WORDS}.",
    table="verdicts",
    needs=["ratio", "size_label"],
    compares="batch",
    columns=["family", "size", "batch", "ratio", "verdict", "label"],
    rows="size_label",
    drawings={"wide": _batches(LABEL_PX), "narrow": _batches(150)},
)
