"""The suite and the table of the reported cases are made from the same lines."""

from cudnn_sweep.orchestrator.planning.spec import load_suite
from cudnn_sweep.workloads.cells.expand import WorkloadFacts, configs_of_cells, expand_cells
from cudnn_sweep.workloads.cells.field_case import load_field_cases
from tests.makers import Look

NETWORK = WorkloadFacts(
    directions=("training", "inference"), varies=("batch", "space"), input_shape=None, is_model=True
)


def test_suite_times_every_side_of_every_case_that_can_be_tested(look: Look) -> None:
    suite = load_suite("field")
    conv = suite.model_copy(update={"cells": [c for c in suite.cells if c.workload == "conv"]})
    facts = look(conv).workloads | {"torchvision.models:resnet50": NETWORK}
    cells = expand_cells(suite, facts, device="cuda", gpu="any")
    own = configs_of_cells(suite, facts, device="cuda", gpu="any")
    timed = {
        (
            cell.problem,
            cell.input_shape,
            cell.direction,
            cell.regime,
            cell.precision,
            cell.layout,
        ): (set(own[cell.cell_id]))
        for cell in cells
    }
    assert len(timed) == len(cells) >= 40
    asked = set()
    for case in load_field_cases().values():
        for side in case.sides() if case.is_tested else ():
            key = (
                side.problem, side.input_shape, side.direction, side.regime, side.precision,
                side.layout,
            )  # fmt: skip
            assert side.config in timed[key], case.id
            asked.add((key, side.config))
    assert len(asked) == sum(map(len, timed.values()))
