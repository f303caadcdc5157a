"""Whether processes agree on what they run."""

from cudnn_sweep.analysis.report.figures.figure import (
    LABEL,
    LABEL_PX,
    Figure,
    Spec,
    drawing,
    marks,
    named_axis,
    nominal,
    quantity,
)
from cudnn_sweep.analysis.report.figures.palette import CATEGORIES, colour


def _dots(axis: Spec | None, step: float) -> Spec:
    sort = {"field": "choice_share", "op": "min", "order": "ascending"}
    y = nominal("short_label", title=None, axis=axis, sort=sort)
    x = quantity(
        "choice_share",
        scale={"domain": [0, 1]},
        axis={"format": "%", "orient": "top", "tickCount": 5},
        title="processes that ran the most common choice",
    )
    spans = marks(
        {"type": "rule", "color": colour("line"), "strokeWidth": step / 10},
        y=y,
        x=quantity("choice_share", aggregate="min", title=None),
        x2={"field": "choice_share", "aggregate": "max"},
    )
    width = max(1, step / 10)
    dots = marks(
        {"type": "point", "size": max(22, 3.5 * step), "strokeWidth": width, "cursor": "pointer"},
        y=y,
        x=x,
        color=nominal("config", scale={"range": CATEGORIES}, title=None),
        shape=nominal("config", title=None),
        **LABEL,
    )
    return drawing(spans, dots, height={"step": step})


STABILITY = Figure(
    place=70,
    name="stability",
    title="Choice stability",
    about="The share of processes that ran the config's most common kernels. At 100% every "
    "process chose alike; below it, which kernels a run gets is a draw.",
    table="choices",
    needs=["choice_share"],
    columns=["label", "config", "choice_share", "entropy_bits", "distinct_choices", "processes"],
    rows="short_label",
    drawings={
        "wide": _dots(named_axis(LABEL_PX), 20),
        "narrow": _dots(named_axis(150), 20),
        "dense": _dots(None, 4),
    },
)
