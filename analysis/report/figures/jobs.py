"""The chart of a job's time against its steps, for each config that was measured in one cell."""

from collections.abc import Sequence
from typing import Any

from cudnn_sweep.analysis.report.figures.figure import (
    Figure,
    Spec,
    dashed,
    drawing,
    log_scaled,
    marks,
    nominal,
    quantity,
)
from cudnn_sweep.analysis.report.figures.palette import CATEGORIES

CONFIG = nominal("config", title=None, scale={"range": CATEGORIES})
LINE = nominal("key")  # a config of several sweeps has several
ON_LINE = {"y": {"datum": 1}, "color": CONFIG}  # where the times with both are equal
REACH = [{"expr": "1 / reach"}, {"expr": "reach"}]


def _log(name: str, title: str, domain: Sequence[Any], written: str) -> Spec:
    scale = {"type": "log", "domain": domain, "nice": False}
    return log_scaled(name, title, format=written, grid=True) | {"scale": scale}


JOBS = Figure(
    place=5,
    name="jobs",
    title="A job's time by its steps",
    about="Time of the whole job, divided by its time with the baseline (the dashed line), with 95% intervals, in the "
    "cell whose name you selected. Dots mark the break-even points, with their intervals. Starts and searches are "
    "within the time: a short job mostly starts. Curves leave the chart where the difference is large.",
    table="curve",
    needs=["job_ratio"],
    columns=[
        "config",
        "steps",
        "job_ratio",
        "job_low",
        "job_high",
        "baseline_time",
        "candidate_time",
        "advice",
    ],
    drawing=drawing(
        dashed(y={"datum": 1}),
        marks(
            {"type": "area", "opacity": 0.18, "clip": True},
            x=quantity("steps"),
            y=quantity("job_low"),
            y2={"field": "job_high"},
            color=CONFIG,
            detail=LINE,
        ),
        marks(
            {"type": "line", "clip": True, "point": {"size": 36, "tooltip": True}},
            x=_log("steps", "steps of the job", [100, 1e6], "~s"),
            y=_log("job_ratio", "job's time / with the baseline", REACH, "~g"),
            color=CONFIG,
            detail=LINE,
        ),
        marks(
            {"type": "rule", "strokeWidth": 4, "opacity": 0.6, "clip": True},
            [{"filter": "isValid(datum.crossing_low) && isValid(datum.crossing_high)"}],
            x=quantity("crossing_low"),
            x2={"field": "crossing_high"},
            **ON_LINE,
        ),
        marks(
            {"type": "point", "filled": True, "size": 90, "opacity": 1, "clip": True},
            [{"filter": "isValid(datum.crossing)"}],
            x=quantity("crossing"),
            **ON_LINE,
        ),
    ),
)
