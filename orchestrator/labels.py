"""How a cell and a config are called on the screen."""

from cudnn_sweep.analysis.settings import config_name
from cudnn_sweep.orchestrator.contrast import settings_of
from cudnn_sweep.orchestrator.plan import Trial
from cudnn_sweep.workloads.cell import Cell
from cudnn_sweep.workloads.config import CudnnConfig
from cudnn_sweep.workloads.problem import sizes_text

USUAL = ("plain", "contiguous", None)  # a state and a layout that need no word


def cell_label(cell: Cell) -> str:
    what = cell.problem.name if cell.problem else cell.workload
    sizes = sizes_text(cell.input_shape)
    parts = (what, cell.direction, sizes, cell.regime, cell.state, cell.precision, cell.layout)
    return " ".join(part for part in parts if part not in USUAL)


def config_label(config: CudnnConfig) -> str:
    return config_name(settings_of(config))


def trial_label(trial: Trial) -> str:
    twin = " (A/A twin)" if trial.twin else ""
    return f"{cell_label(trial.cell)} · {config_label(trial.config)}{twin}"
