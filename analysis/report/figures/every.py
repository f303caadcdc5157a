"""The figures in the order in which a report shows them."""

from cudnn_sweep.analysis.report.figures import (
    break_even,
    cold_cost,
    effect,
    heat_map,
    memory,
    precision,
    stability,
    time,
)
from cudnn_sweep.analysis.report.figures.figure import Figure
from cudnn_sweep.analysis.report.figures.palette import Palette


def figures(palette: Palette, min_effect: float) -> list[Figure]:
    return [
        effect.figure(palette, min_effect),
        heat_map.figure(palette, min_effect),
        break_even.figure(palette, "empty"),
        break_even.figure(palette, "warm"),
        memory.figure(palette),
        cold_cost.figure(palette),
        stability.figure(palette),
        precision.figure(palette),
        time.figure(palette),
    ]
