"""A chart of the time of a job against its number of steps, for the configs of one cell."""

from cudnn_sweep.analysis.report.figures import figure as vega
from cudnn_sweep.analysis.report.figures.palette import CATEGORIES

LEGEND = {
    "columns": {"expr": "narrow ? 1 : 3"},
    "labelFontSize": {"expr": "narrow ? 10 : 12"},
    "labelLimit": {"expr": "narrow ? 310 : 330"},
}
CONFIG = vega.nominal("config", title=None, scale={"range": CATEGORIES}, legend=LEGEND)
KEY = vega.nominal("key")  # a config has several keys if several sweeps measured it
OF_CONFIG: vega.Spec = {"color": CONFIG, "detail": KEY}
ON_LINE: vega.Spec = {"y": {"datum": 1}, "color": CONFIG}  # the line on which both times are equal
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
    about="Time of a whole job divided by its time with the baseline (the dashed line), with 95% "
    "intervals, for the selected cell. Dots are break-even points with intervals. The time of a "
    "job includes its start and the search for kernels, which take most of a short job.",
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
