"""The chart of peak memory against time, both as candidate / baseline."""

from cudnn_sweep.analysis.report.figures.figure import (
    Figure,
    by_verdict,
    dashed,
    drawing,
    log_scaled,
    points,
)

MEMORY = Figure(
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
    drawing=drawing(
        dashed(x={"datum": 1}),
        dashed(y={"datum": 1}),
        points(
            x=log_scaled("ratio", "time, candidate / baseline", grid=True),
            y=log_scaled("memory_ratio", "peak memory, candidate / baseline", grid=True),
            color=by_verdict("color"),
            shape=by_verdict("shape"),
        ),
    ),
)
