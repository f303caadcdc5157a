"""How a cell and a config are called on the screen."""

from dataclasses import fields

from cudnn_sweep.orchestrator.plan import Trial
from cudnn_sweep.workloads.cell import Cell
from cudnn_sweep.workloads.config import CudnnConfig
from cudnn_sweep.workloads.problem import sizes_text

DEFAULT = CudnnConfig()
USUAL = ("plain", "contiguous", None)  # a state and a layout that need no word


def cell_label(cell: Cell) -> str:
    what = cell.problem.name if cell.problem else cell.workload
    sizes = sizes_text(cell.input_shape)
    parts = (what, cell.direction, sizes, cell.regime, cell.state, cell.precision, cell.layout)
    return " ".join(part for part in parts if part not in USUAL)


def config_label(config: CudnnConfig) -> str:
    """`benchmark` always, the other fields where they differ from PyTorch's default."""
    shown = [
        f"{field.name}={str(getattr(config, field.name)).lower()}"
        for field in fields(config)
        if field.name == "benchmark" or getattr(config, field.name) != getattr(DEFAULT, field.name)
    ]
    return " ".join(shown)


def trial_label(trial: Trial) -> str:
    twin = " (A/A twin)" if trial.twin else ""
    return f"{cell_label(trial.cell)} · {config_label(trial.config)}{twin}"
