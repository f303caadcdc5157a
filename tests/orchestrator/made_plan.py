"""A plan of cells whose workloads nothing imports: no server, a millisecond."""

from collections.abc import Sequence
from typing import Any

from cudnn_sweep.orchestrator.planning.plan import Plan, make_plan
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.expand import WorkloadFacts, expand_cells
from cudnn_sweep.workloads.cells.suite import CellAxes, SuiteSpec


def made_plan(
    workload: str = "noop",
    *,
    configs: Sequence[Config] = (Config(),),
    facts: dict[str, Any] | None = None,
    suite: dict[str, Any] | None = None,
    **axes: Any,
) -> Plan:
    """A workload is a model if it is given an `input`, a convolution if it is given a problem."""
    spec = SuiteSpec(
        cells=[CellAxes(workload=workload, **axes)],
        configs=list(configs),
        **{"replicates": 1} | (suite or {}),
    )
    of_its_own: dict[str, Any] = {
        "directions": ("forward", "training"),
        "varies": ("batch", "space"),
        "input_shape": None if {"problem", "input"} & {*axes} else (8, 3, 64, 64),
        "is_model": "input" in axes,
    }
    traits = WorkloadFacts(**of_its_own | (facts or {}))
    return make_plan("test", spec, expand_cells(spec, {workload: traits}, device="cpu", gpu="CPU"))
