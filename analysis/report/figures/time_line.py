"""The chart of when each GPU ran which trial, at which clock, and which trials are doubtful."""

import json

from cudnn_sweep.analysis.report.figures import figure as vega
from cudnn_sweep.analysis.report.figures.palette import colour

KINDS = {
    "left_out": ("failed, throttled or shared", colour("hurts")),
    "slowed": ("below 95% of its highest clock", colour("inconclusive")),
    "counts": ("at 95% or more, or clock unknown", colour("less_3")),
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
    about="A line for each GPU of each launch, a bar for each trial from its start to its end. Verdicts leave out trials "
    "that failed, and those of a throttled or shared GPU; a bar's tooltip has the reason. The table has each clock.",
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
