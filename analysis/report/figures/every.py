"""The figures in the order in which a report shows them."""

from cudnn_sweep.analysis.asking.declared import declared
from cudnn_sweep.analysis.report import figures as folder
from cudnn_sweep.analysis.report.figures.figure import Chart, Figure
from cudnn_sweep.analysis.report.figures.palette import Palette


def figures(palette: Palette, min_effect: float, only: tuple[str, ...] = ()) -> list[Figure]:
    """`only`: by name; all where none is named."""
    charts = sorted(declared(folder, Chart), key=lambda chart: chart.place)
    made = [chart.make(palette, min_effect) for chart in charts]
    return [figure for figure in made if not only or figure.name in only]
