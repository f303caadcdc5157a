"""Sizes by batches, coloured by the ratio."""

import altair as alt

from cudnn_sweep.analysis.report.figures.figure import (
    CELL,
    LABEL_PX,
    ROWS,
    VERDICT,
    Column,
    Drawing,
    Figure,
    chart,
    named_axis,
    styled,
)
from cudnn_sweep.analysis.report.figures.heat_map import SIGNS_TOLD, fields, ratio_and_verdict
from cudnn_sweep.analysis.report.figures.palette import Palette


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
        columns=(
            Column(field="family", title="workload", kind="text"),
            Column(field="size", title="size", kind="text"),
            Column(field="batch", title="batch"),
            Column(field="ratio", title="ratio", kind="ratio"),
            VERDICT,
            CELL,
        ),
        rows="size_label",
        drawings={
            "wide": styled(_map(palette, min_effect, LABEL_PX), palette),
            "narrow": styled(_map(palette, min_effect, 150), palette),
        },
    )


def _map(palette: Palette, min_effect: float, label_px: int) -> Drawing:
    base = (
        alt.Chart(ROWS)
        .transform_calculate(shown=ratio_and_verdict())
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
    return fields(base, palette, min_effect, rows, columns)
