"""A chart of the memory ratio against the time ratio of each cell."""

from cudnn_sweep.analysis.report.figures import figure as vega

MEMORY = vega.Figure(
    place=50,
    name="memory",
    title="Memory against speed",
    about="Peak reserved memory against time, each as the candidate's value divided by the "
    "baseline's. Marks above 1 need more memory. Marks left of 1 are faster.",
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
