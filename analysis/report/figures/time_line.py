"""A chart of the trials that each GPU ran over time."""

import json

from cudnn_sweep.analysis.report.figures import figure as vega
from cudnn_sweep.analysis.report.figures.palette import colour

KINDS = {
    "left_out": ("failed, or GPU throttled or shared", colour("hurts")),
    "slowed": ("clock below 95% of the highest", colour("inconclusive")),
    "counts": ("clock at 95% or more, or unknown", colour("less_3")),
}
WORDS, TONES = (list(parts) for parts in zip(*KINDS.values(), strict=True))
KIND = vega.calculate(
    kind="datum.status !== 'ok' || test(/throttled|shared_gpu/, datum.warnings || '') ? 'left_out' "
    ": isValid(datum.sm_clock_mhz) && datum.sm_clock_mhz < 0.95 * datum.max_sm_clock_mhz ? 'slowed' : 'counts'",
    said=f"({json.dumps(dict(zip(KINDS, WORDS, strict=True)))})[datum.kind]",
)
MINUTES = {"title": "minutes since the launch's first trial", "axis": {"orient": "top"}}
TIME_LINE = vega.Figure(
    place=80,
    name="time_line",
    title="Trials of each GPU over time",
    about="Each line is a GPU of a launch, each bar a trial. Verdicts leave out trials that failed "
    "or shared their GPU, and pairs with two throttled trials. A bar's tooltip shows the reason.",
    table="trials",
    needs=["from_minute", "to_minute"],
    columns=[
        *("label", "config", "status", "warnings", "message", "sm_clock_mhz", "max_sm_clock_mhz"),
        *("steady_wall_ms", "from_minute", "to_minute", "ran_on"),
    ],
    rows="ran_on",
    drawing=vega.drawing(
        vega.marks(
            {"type": "bar", "height": 14, "cursor": "pointer"},
            KIND,
            x=vega.quantity("from_minute", **MINUTES),
            x2={"field": "to_minute"},
            y=vega.line_each("ran_on"),
            color=vega.nominal("said", title=None, scale={"domain": WORDS, "range": TONES}),
            **vega.TOOLTIP,
        ),
    ),
)
