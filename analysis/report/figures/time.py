"""Where the slots' time went."""

from cudnn_sweep.analysis.report.figures.figure import (
    Figure,
    calculate,
    drawing,
    marks,
    nominal,
    quantity,
)
from cudnn_sweep.analysis.report.figures.palette import colour

ORDER = {"field": "share", "op": "min", "order": "descending"}
KINDS = {
    "domain": ["measuring", "around it"],
    "range": [colour("helps"), colour("no_effect")],
}
BARS = marks(
    {"type": "bar", "height": {"band": 0.7}},
    calculate(shown="datum.part + '\u2003' + format(datum.share, '.1%')"),
    x=quantity("share", axis=None),
    y=nominal("shown", sort=ORDER, axis={"ticks": False, "domain": False}, title=None),
    color=nominal("kind", scale=KINDS, title=None),
    tooltip=nominal("part"),
    description=nominal("shown"),
)
TIME = Figure(
    place=90,
    name="time",
    title="Where the time went",
    about="Shares of the slots' wall time over all trials. Cold, calibration and steady are what "
    "was asked for; the rest is what asking costs.",
    table="time",
    needs=["share"],
    columns=["part", "share", "total_s", "kind"],
    half=True,
    rows="part",
    drawings={"wide": drawing(BARS, height={"step": 22})},
)
