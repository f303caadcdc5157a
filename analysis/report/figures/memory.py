"""The chart of peak memory against time, both as candidate / baseline."""

from cudnn_sweep.analysis.report.figures import figure as vega

MEMORY = vega.Figure(
    place=50,
    name="memory",
    title="Memory against speed",
    about="Each cell's peak of reserved device memory, candidate / baseline, against its time "
    "ratio: a mark above 1 needs more memory, one left of 1 is faster.",
    table="verdicts",
    needs=["ratio", "memory_ratio"],
    columns=[
        *("label", "memory_ratio", "baseline_peak_reserved_bytes"),
        *("candidate_peak_reserved_bytes", "ratio", "verdict"),
    ],
    drawing=vega.drawing(
        vega.dashed(x={"datum": 1}),
        vega.dashed(y={"datum": 1}),
        vega.points(
            x=vega.log_scaled("ratio", "time, candidate / baseline", grid=True),
            y=vega.log_scaled("memory_ratio", "peak memory, candidate / baseline", grid=True),
        ),
    ),
)
