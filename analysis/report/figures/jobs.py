"""The chart of a job's time against its steps, for each config that was measured in one cell."""

from cudnn_sweep.analysis.report.figures.figure import (
    ROWS,
    Figure,
    dashed,
    drawing,
    log_scaled,
    marks,
    nominal,
    quantity,
)
from cudnn_sweep.analysis.report.figures.palette import CATEGORIES

CROSSING = {"filter": "isValid(datum.crossing)"}
CONFIG = nominal("config", title=None, scale={"range": CATEGORIES})
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
        ),
        marks(
            {
                "type": "line",
                "strokeWidth": 2,
                "clip": True,
                "point": {"size": 36},
                "tooltip": True,
            },
            x=log_scaled("steps", "steps of the job", format="~s", grid=True)
            | {"scale": {"type": "log", "domain": [100, 1e6], "nice": False}},
            y=log_scaled("job_ratio", "job's time / with the baseline", grid=True)
            | {
                "scale": {
                    "type": "log",
                    "domain": [{"expr": "1 / reach"}, {"expr": "reach"}],
                    "nice": False,
                }
            },
            color=CONFIG,
            tooltip=CONFIG,
            description=CONFIG,
        ),
        marks(
            {"type": "rule", "strokeWidth": 4, "opacity": 0.6, "clip": True},
            [CROSSING, {"filter": "isValid(datum.crossing_low) && isValid(datum.crossing_high)"}],
            ROWS,
            x=quantity("crossing_low"),
            x2={"field": "crossing_high"},
            y={"datum": 1},
            color=CONFIG,
        ),
        marks(
            {"type": "point", "filled": True, "size": 90, "opacity": 1, "clip": True},
            [CROSSING],
            ROWS,
            x=quantity("crossing"),
            y={"datum": 1},
            color=CONFIG,
        ),
    ),
)
