"""Problems by regimes and sizes by batches, coloured by the ratio."""

import altair as alt

from cudnn_sweep.analysis.report.figures.figure import (
    LABEL_PX,
    LABELLED_ROWS,
    ROWS,
    Drawing,
    Figure,
    chart,
    named_axis,
    styled,
)
from cudnn_sweep.analysis.report.figures.palette import Palette

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


SIGNS_TOLD = "◀ helps, ▶ hurts, = equivalent, ? inconclusive, ◁ ▷ ○ so far, ✗ fails, · no effect"


@chart(place=20)
def heat_map(palette: Palette, min_effect: float) -> Figure:
    return Figure(
        name="heat_map",
        title="Workload by regime",
        about="The same ratios, so that rows compare how shapes arrive. Each field shows the ratio "
        f"and its verdict: {SIGNS_TOLD}. More than {LABELLED_ROWS} rows have colours alone.",
        table="verdicts",
        needs=("ratio",),
        compares="regime_label",
        columns=("row_label", "regime_label", "ratio", "verdict", "label"),
        rows="row_label",
        drawings={
            "wide": styled(_map(palette, min_effect, LABEL_PX, -20), palette),
            "dense": styled(_strips(palette, min_effect), palette),
            "narrow": styled(_map(palette, min_effect, 150, -90), palette),
        },
    )


def _map(palette: Palette, min_effect: float, label_px: int, angle: int) -> Drawing:
    base = alt.Chart(ROWS).transform_calculate(shown=_ratio_and_verdict())
    return _fields(base, palette, min_effect, _rows("row_label", label_px), _columns(angle))


def _ratio_and_verdict() -> str:
    signs = " ".join(f"datum.verdict == '{name}' ? ' {sign}' :" for name, sign in SIGNS.items())
    return f"format(datum.ratio, '.2f') + ({signs} '')"


def _strips(palette: Palette, min_effect: float) -> Drawing:
    rows = alt.Y("row_label:N", title=None, axis=None)
    strips: Drawing = _coloured(alt.Chart(ROWS), palette, min_effect, rows, _columns(-20))
    return strips.properties(width="container", height=alt.Step(4))


def _rows(field: str, label_px: int) -> alt.Y:
    return alt.Y(f"{field}:N", title=None, axis=named_axis(label_px))


def _columns(angle: int) -> alt.X:
    return alt.X("regime_label:N", title=None, axis=alt.Axis(orient="top", labelAngle=angle))


def _fields(
    chart: alt.Chart, palette: Palette, min_effect: float, rows: alt.Y, columns: alt.X
) -> Drawing:
    """With the text `shown` in each field."""
    text = chart.mark_text(color=palette.ink, fontSize=11, cursor="pointer").encode(
        x=columns, y=rows, text="shown:N", tooltip="label:N"
    )
    coloured = _coloured(chart, palette, min_effect, rows, columns)
    return alt.layer(coloured, text).properties(width="container", height=alt.Step(26))


def _coloured(
    chart: alt.Chart, palette: Palette, min_effect: float, rows: alt.Y, columns: alt.X
) -> alt.Chart:
    """A rectangle a row and column, coloured by `ratio`."""
    tone = "datum.verdict === 'no_effect' ? 1 : datum.ratio"  # its ratio is noise
    drawn: alt.Chart = (
        chart.transform_calculate(tone=tone)
        .mark_rect(stroke=palette.paper, strokeWidth=2, cursor="pointer")
        .encode(
            x=columns,
            y=rows,
            color=alt.Color("tone:Q", scale=_scale(palette, min_effect), legend=None),
            tooltip="label:N",
            description="label:N",
        )
    )
    return drawn


def _scale(palette: Palette, min_effect: float) -> alt.Scale:
    counts = 1 + min_effect
    some = max(SOME, counts)
    much = max(MUCH, some)
    domain = [1 / much, 1 / some, 1 / counts, counts, some, much]
    return alt.Scale(type="threshold", domain=domain, range=palette.steps)


@chart(place=22)
def batch_map(palette: Palette, min_effect: float) -> Figure:
    return Figure(
        name="batch_map",
        title="Size by batch",
        about="The same ratios of the workloads that were timed at several batches or sizes of input: a row "
        f"for each size, a column for each batch. Signs: {SIGNS_TOLD}.",
        table="verdicts",
        needs=("ratio", "size_label"),
        compares="batch",
        columns=("family", "size", "batch", "ratio", "verdict", "label"),
        rows="size_label",
        drawings={
            "wide": styled(_batches(palette, min_effect, LABEL_PX), palette),
            "narrow": styled(_batches(palette, min_effect, 150), palette),
        },
    )


def _batches(palette: Palette, min_effect: float, label_px: int) -> Drawing:
    base = (
        alt.Chart(ROWS)
        .transform_calculate(shown=_ratio_and_verdict())
        .transform_window(
            place="dense_rank()",
            sort=[alt.SortField(name) for name in ("family", "size_elements", "size")],
        )
    )
    rows = alt.Y(
        "size_label:N",
        title=None,
        axis=named_axis(label_px),
        sort=alt.EncodingSortField("place", op="min"),
    )
    columns = alt.X("batch:O", title="batch", axis=alt.Axis(orient="top", labelAngle=0))
    return _fields(base, palette, min_effect, rows, columns)
