"""Cells and settings of a small convolution, and others, made up for tests of states."""

from typing import Any, Protocol

import torch

from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.expand import WorkloadFacts, expand_cells
from cudnn_sweep.workloads.cells.measurement import Measurement, MeasureSpec
from cudnn_sweep.workloads.cells.suite import SuiteSpec
from cudnn_sweep.workloads.find_state import make_state
from cudnn_sweep.workloads.measuring.device import Device, find_device
from cudnn_sweep.workloads.precision import find_precision
from cudnn_sweep.workloads.problem import ConvProblem, Shape
from cudnn_sweep.workloads.survey import workload_facts
from cudnn_sweep.workloads.workload import Context

QUICK = MeasureSpec(warmup_s=0.0, steady_budget_s=0.02, calibrate=False, timeout_s=100)
DEFAULT = Config()
CPU, GPU = Device(torch=torch.device("cpu")), Device(torch=torch.device("cuda"))
PROBLEM = {"input": "2x4x20x24", "out_channels": 8, "kernel": 3, "padding": 1}
GENERATOR = "cudnn_sweep.workloads.nets.dcgan:Generator"
NEEDED: dict[str, dict[str, object]] = {
    "conv": {"problem": "small"},
    GENERATOR: {"input": "2x100x1x1", "model": {"arguments": {"width": 16}}},
}

MODEL = WorkloadFacts(
    directions=("training", "inference"),
    varies=("batch", "space"),
    input_shape=None,
    recomputes=True,
    is_model=True,
)


class MeasureCell(Protocol):
    def __call__(
        self, cell: Cell, config: Config = DEFAULT, compute_cache: str | None = None
    ) -> Measurement: ...


def plain_context(
    direction: str,
    problem: ConvProblem | None = None,
    *,
    precision: str = "fp32",
    layout: str = "contiguous",
    device: Device | None = None,
    **more: Any,
) -> Context:
    """On a CPU, if no device is given."""
    return Context(
        device=(device or CPU).torch,
        precision=find_precision(precision),
        layout=layout,
        direction=direction,
        problem=problem,
        **more,
    )


def context_of(
    state: str,
    *,
    precision: str = "fp32",
    layout: str = "contiguous",
    direction: str = "forward_backward",
    device: Device | None = None,
    **parameters: float,
) -> Context:
    """Of a small convolution, on a GPU where there is one."""
    return plain_context(
        direction,
        suite_of(workload="conv").problems["small"].problem("small"),
        precision=precision,
        layout=layout,
        device=device or find_device(),
        state=make_state(state, parameters),
    )


def one_cell(workload: str, input_shape: Shape | None = None, **axes: object) -> Cell:
    """A cell as planning makes it; `input_shape` of a workload that is not bundled."""
    facts = workload_facts([workload])[workload]
    if input_shape is not None:
        facts = WorkloadFacts(directions=("forward",), varies=(), input_shape=input_shape)
    needed = NEEDED.get(workload, {})
    suite = suite_of(workload=workload, **{"precision": "fp32"} | needed | axes)
    (cell,) = expand_cells(suite, {workload: facts}, device="cpu", gpu="some processor")
    return cell


def suite_of(**axes: object) -> SuiteSpec:
    return SuiteSpec.model_validate({"cells": [axes], "problems": {"small": PROBLEM}})
