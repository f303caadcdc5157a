"""The chart of a job's time against its steps, for each config that was measured in one cell."""

from cudnn_sweep.analysis.report.figures import figure as vega
from cudnn_sweep.analysis.report.figures.palette import CATEGORIES

LEGEND = {
    "columns": {"expr": "narrow ? 1 : 3"},
    "labelFontSize": {"expr": "narrow ? 10 : 12"},
    "labelLimit": {"expr": "narrow ? 310 : 330"},
}
CONFIG = vega.nominal("config", title=None, scale={"range": CATEGORIES}, legend=LEGEND)
KEY = vega.nominal("key")  # a config of several sweeps has several
OF_CONFIG: vega.Spec = {"color": CONFIG, "detail": KEY}
ON_LINE: vega.Spec = {"y": {"datum": 1}, "color": CONFIG}  # where the times with both are equal
REACH = [{"expr": "1 / reach"}, {"expr": "reach"}]
STEPS = vega.log_scaled("steps", "steps of the job", [100, 1e6], format="~s", grid=True)
RATIO = vega.log_scaled("job_ratio", "job's time, candidate / baseline", REACH, grid=True)
INTERVAL: vega.Spec = {"y": vega.quantity("job_low"), "y2": {"field": "job_high"}}
CROSSINGS: vega.Spec = {"x": vega.quantity("crossing_low"), "x2": {"field": "crossing_high"}}
AREA = {"type": "area", "opacity": 0.18, "clip": True}
CURVE = {"type": "line", "clip": True, "point": {"size": 36, "tooltip": True}}
RULE = {"type": "rule", "strokeWidth": 4, "opacity": 0.6, "clip": True}
DOT = {"type": "point", "filled": True, "size": 90, "opacity": 1, "clip": True}

JOBS = vega.Figure(
    place=5,
    name="jobs",
    title="A job's time against its steps",
    about="Time of the whole job, divided by its time with the baseline (the dashed line), with 95% intervals, in the "
    "cell whose name you selected. Dots mark the break-even points, with their intervals. Starts and searches are "
    "within the time and fill most of a short job. Curves leave the chart where the difference is large.",
    table="curve",
    needs=["job_ratio"],
    columns=[
        *("config", "steps", "job_ratio", "job_low", "job_high"),
        *("baseline_time", "candidate_time", "advice"),
    ],
    drawing=vega.drawing(
        vega.dashed(y={"datum": 1}),
        vega.marks(AREA, x=vega.quantity("steps"), **INTERVAL, **OF_CONFIG),
        vega.marks(CURVE, x=STEPS, y=RATIO, **OF_CONFIG),
        vega.marks(RULE, vega.known("crossing_low", "crossing_high"), **CROSSINGS, **ON_LINE),
        vega.marks(DOT, vega.known("crossing"), x=vega.quantity("crossing"), **ON_LINE),
    ),
)
