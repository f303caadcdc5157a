"""The chart of choice stability: the share of processes that ran the most common kernels."""

from cudnn_sweep.analysis.report.figures.figure import (
    Figure,
    drawing,
    line_each,
    marks,
    nominal,
    points,
    quantity,
)
from cudnn_sweep.analysis.report.figures.palette import CATEGORIES, colour

Y = line_each("short_label", sort={"field": "choice_share", "op": "min", "order": "ascending"})
STABILITY = Figure(
    place=70,
    name="stability",
    title="Choice stability",
    about="The share of processes that ran the config's most common kernels. At 100% every "
    "process chose alike; below that, chance decides which kernels a run gets.",
    table="choices",
    needs=["choice_share"],
    columns=["label", "config", "choice_share", "entropy_bits", "distinct_choices", "processes"],
    rows="short_label",
    drawing=drawing(
        marks(
            {"type": "rule", "color": colour("line")},
            y=Y,
            x=quantity("choice_share", aggregate="min", title=None),
            x2={"field": "choice_share", "aggregate": "max"},
        ),
        points(
            y=Y,
            x=quantity(
                "choice_share",
                scale={"domain": [0, 1]},
                axis={"format": "%", "orient": "top", "tickCount": 5},
                title="processes that ran the most common choice",
            ),
            color=nominal("config", scale={"range": CATEGORIES}, title=None),
            shape=nominal("config", title=None),
        ),
    ),
)
