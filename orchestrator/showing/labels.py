"""How a plan's cells, trials and configs are called on the screen: as the stored ones are."""

from collections.abc import Iterable, Mapping

from cudnn_sweep.analysis.answering.cell_names import CellRow, names_apart
from cudnn_sweep.analysis.asking.settings import config_name, shortened
from cudnn_sweep.orchestrator.planning.cell_columns import cell_columns
from cudnn_sweep.orchestrator.planning.contrasts import settings_of
from cudnn_sweep.orchestrator.planning.plan import Trial
from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.problem import sizes_text


def cell_labels(cells: Iterable[Cell]) -> dict[str, str]:
    """Each cell's name by its cell_id, told apart from the others."""
    return names_apart(as_row(cell) for cell in cells)


def as_row(cell: Cell) -> CellRow:
    sizes = sizes_text(cell.input_shape)
    return {**cell_columns(cell), "input_shape": sizes, "gpu": cell.gpu}


def config_label(config: CudnnConfig) -> str:
    return shortened(config_name(settings_of(config)))


def trial_label(trial: Trial, cells: Mapping[str, str]) -> str:
    """`cells`: what the plan's cells are called, by cell_id."""
    twin = " (A/A twin)" if trial.twin else ""
    return f"{cells[trial.cell.cell_id]} · {config_label(trial.config)}{twin}"
